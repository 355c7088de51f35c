// collectives_test.cc - named collectives on ranks as threads; stalls, late and failing ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/collectives.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "comm/collectives_suite.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/collective_queue.h"
#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::OneHost;
using testing::RunRanks;
using testing::RunRanksOn;
using testing::View;

void CheckAll(const std::vector<std::string>& hosts,
              const std::vector<testing::CommunicatorCase>& cases) {
  for (const auto& test_case : cases) {
    INFO(test_case.name << ", " << hosts.size() << " ranks");
    const std::vector<std::string> wrong = RunRanksOn(hosts, test_case.run);
    for (size_t r = 0; r < wrong.size(); ++r) {
      INFO("rank " << r);
      CHECK(wrong[r] == "");
    }
  }
}

// Collects what is logged while it lives.
class LogCapture {
 public:
  LogCapture() {
    previous_ = SetLogSink([this](LogLevel, std::string_view message) {
      const std::lock_guard lock(mutex_);
      text_ += std::string(message) + "\n";
    });
  }
  ~LogCapture() { SetLogSink(previous_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
  LogSink previous_;
};

TEST_CASE("named reductions on ranks as threads") {
  for (const int size : {1, 2, 3, 4}) CheckAll(OneHost(size), testing::ReductionCases());
}

TEST_CASE("values of named reductions on ranks as threads") {
  for (const int size : {1, 2, 3, 4}) CheckAll(OneHost(size), testing::ValueCases());
}

TEST_CASE("waiting for all waits for all of them, and gives the first error") {
  const auto wrong = RunRanks(2, [](Communicator& comm) -> std::string {
    Collectives collectives(comm);
    std::vector<float> first(4, 1.0f), bad(comm.rank() == 0 ? 2 : 3), worse = bad, last(4, 2.0f);
    const ReduceOptions sum{.op = ReduceOp::kSum};
    const std::vector<CollectiveHandle> handles = {collectives.AllReduce("first", View(first), sum),
                                                   collectives.AllReduce("bad", View(bad), sum),
                                                   collectives.AllReduce("worse", View(worse), sum),
                                                   collectives.AllReduce("last", View(last), sum)};
    const std::string error(WaitAll(handles).message());
    if (error.find("\"bad\"") == std::string::npos) return error;
    for (const CollectiveHandle& handle : handles) {
      if (!handle.Poll()) return "one is in flight";
    }
    if (first[0] != 2.0f || last[0] != 4.0f) return "a sum is wrong";
    return std::string(WaitAll({handles[0], handles[3]}).message());
  });
  for (const std::string& of_rank : wrong) CHECK(of_rank == "");
}

TEST_CASE("named movements on ranks as threads") {
  for (const int size : {1, 2, 3, 4}) CheckAll(OneHost(size), testing::MovementCases());
}

TEST_CASE("named collectives on two hosts") {
  CheckAll({"a", "a", "b", "b"}, testing::ReductionCases());
  CheckAll({"a", "b", "b"}, testing::ValueCases());
  CheckAll({"a", "b", "b"}, testing::MovementCases());
}

TEST_CASE("a single process needs nobody") {
  SelfCommunicator self;
  for (const auto& test_case : testing::ReductionCases()) CHECK(test_case.run(self) == "");
  for (const auto& test_case : testing::ValueCases()) CHECK(test_case.run(self) == "");
  for (const auto& test_case : testing::MovementCases()) CHECK(test_case.run(self) == "");
}

TEST_CASE("an absent tensor is refused by one reason") {
  SelfCommunicator self;
  Collectives collectives(self);
  for (const CollectiveHandle& handle :
       {collectives.AllGather("gathered", {}), collectives.ReduceScatter("scattered", {}),
        collectives.AllToAll("exchanged", {})}) {
    const std::string message(handle.Wait().message());
    CHECK_THAT(message, Catch::Contains("the tensor is absent"));
    CHECK_THAT(message, !Catch::Contains("a scalar has no rows"));
  }
}

TEST_CASE("options below zero are refused") {
  SelfCommunicator self;
  CHECK_THROWS_WITH(Collectives(self, {.fusion_bytes = -1}), Catch::Contains("fusion_bytes"));
  CHECK_THROWS_WITH(Collectives(self, {.cycle_seconds = -1}), Catch::Contains("cycle_seconds"));
  CHECK_THROWS_WITH(Collectives(self, {.timeout_seconds = -1}), Catch::Contains("timeout_seconds"));
}

TEST_CASE("10,000 tensors in random orders, sizes and delays have exact sums") {
  const std::vector<std::string> wrong = RunRanks(4, [](Communicator& comm) {
    return testing::FuzzTheQueue(comm, 10000, /*seed=*/5, testing::OptionsOfFuzz());
  });
  for (const std::string& text : wrong) CHECK(text == "");
}

TEST_CASE("ranks with unlike options fuse and remember as rank 0 does") {
  const std::vector<std::string> wrong =
      RunRanks(3,
               [](Communicator& comm) {
                 CollectivesOptions options = testing::OptionsOfFuzz();
                 options.fusion_bytes = comm.is_root() ? 64 << 20 : comm.rank() == 1 ? 0 : 1024;
                 options.cache_entries = comm.rank() == 1 ? 1024 : 64;
                 return testing::FuzzTheQueue(comm, 1000, /*seed=*/7, options);
               },
               {.timeout_seconds = 10});
  for (const std::string& text : wrong) CHECK(text == "");
}

// Rank 1 of 3 comes late or never; the status of each rank.
std::vector<Status> LateRank(double late_seconds, const CollectivesOptions& options) {
  return RunRanks(3, [&](Communicator& comm) {
    Collectives collectives(comm, options);
    std::vector<float> common(10, 1.0f);
    std::vector<float> values(10, 1.0f);
    Status status = collectives.AllReduce("first", View(common)).Wait();
    if (!status.ok()) return status;
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::duration<double>(late_seconds));
    }
    return collectives.AllReduce("late", View(values)).Wait();
  });
}

TEST_CASE("38: a tensor that a rank lacks is named in a warning, then all goes on") {
  LogCapture log;
  for (const Status& status : LateRank(0.4, {.stall_warning_seconds = 0.1})) {
    CHECK(status.ok());
  }
  CHECK_THAT(log.text(), Catch::Contains("for rank 1 (host a), which submitted nothing, with "
                                         "\"late\""));
}

TEST_CASE("38: after the time-out every rank has an error with the tensor and the rank") {
  LogCapture log;
  const auto statuses = LateRank(0.5, {.stall_warning_seconds = 0.1, .timeout_seconds = 0.25});
  for (const Status& status : statuses) {
    CHECK(testing::ExpectError(status, ExitCode::kCommunication,
                               {"for rank 1 (host a)", "\"late\"", "gave up"}) == "");
  }
}

TEST_CASE("38: what ranks gave up is whole for a late one, or fails there too") {
  for (const bool by_abort : {false, true}) {
    LogCapture log;
    const auto sums = RunRanks(3, [&](Communicator& comm) {
      Collectives collectives(
          comm, {.stall_warning_seconds = 0.1, .timeout_seconds = by_abort ? 30.0 : 0.25});
      std::vector<float> values(10, 1.0f);
      DT_CHECK(collectives.AllReduce("known", View(values), {.op = ReduceOp::kSum}).Wait().ok());
      std::fill(values.begin(), values.end(), 1.0f);
      if (comm.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        const Status status =
            collectives.AllReduce("known", View(values), {.op = ReduceOp::kSum}).Wait();
        const float sum = status.ok() ? values[0] : 3.0f;
        DT_CHECK(!collectives.AllReduce("next", View(values), {.op = ReduceOp::kSum}).Wait().ok());
        return sum;
      }
      const auto handle = collectives.AllReduce("known", View(values), {.op = ReduceOp::kSum});
      if (by_abort && comm.rank() == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        collectives.Abort("a test");
      }
      const Status status = handle.Wait();
      DT_CHECK(status.ok() || status.code() == ExitCode::kCommunication);
      const float sum = status.ok() ? values[0] : 3.0f;
      values.assign(values.size(), 100.0f);  // it is the caller's again
      return sum;
    });
    CHECK(sums == std::vector<float>(3, 3.0f));
  }
}

TEST_CASE("a join waits for tensors in flight, known ones too") {
  const auto sums = RunRanks(3, [](Communicator& comm) {
    Collectives collectives(comm, {.timeout_seconds = 5});
    std::vector<float> mine;
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<float> late(10, 1.0f);
      std::vector<float> all(10, 10.0f);
      DT_CHECK(collectives.AllReduce("x", View(all), {.op = ReduceOp::kSum}).Wait().ok());
      CollectiveHandle handle;
      if (comm.rank() == 0) handle = collectives.AllReduce("x", View(late), {.op = ReduceOp::kSum});
      DT_CHECK(collectives.Join().ok());
      if (comm.rank() == 0) DT_CHECK(handle.Wait().ok());
      mine.insert(mine.end(), {all[0], late[0]});
    }
    return mine;
  });
  for (const std::vector<float>& of_rank : sums) {
    CHECK(of_rank == std::vector<float>{30, 1, 30, 1, 30, 1});
  }
}

TEST_CASE("a rank that joins behind its last tensor lacks the others' in the same exchange") {
  const auto right = RunRanks(3, [](Communicator& comm) {
    Collectives collectives(comm, {.timeout_seconds = 5});
    std::vector<float> shared(10, 2.0f);
    std::vector<float> lacking(5000, 3.0f);
    CollectiveHandle second;
    const auto first = collectives.AllReduce("shared", View(shared), {.op = ReduceOp::kSum});
    if (comm.rank() != 0) {
      second = collectives.AllReduce("lacking", View(lacking), {.op = ReduceOp::kSum});
    }
    DT_CHECK(collectives.Join().ok());
    DT_CHECK(first.Wait().ok());
    if (comm.rank() != 0) DT_CHECK(second.Wait().ok());
    const float sum = comm.rank() == 0 ? 3.0f : 6.0f;
    return shared == std::vector<float>(10, 6.0f) && lacking == std::vector<float>(5000, sum);
  });
  for (const bool of_rank : right) CHECK(of_rank);
}

TEST_CASE("what a rank cannot take part with is refused on every rank") {
  const auto messages = RunRanks(2, [](Communicator& comm) {
    Collectives collectives(comm);
    std::vector<float> values(4, 1.0f);
    std::vector<float> longer(5, 0.0f);
    const bool wrong = comm.rank() == 1;
    std::vector<std::string> texts;
    const auto note = [&](const Status& status) { texts.emplace_back(status.message()); };
    note(collectives.AllReduce("absent", wrong ? Tensor() : View(values)).Wait());
    note(collectives.AllReduce("output", View(values), wrong ? View(longer) : View(values)).Wait());
    note(collectives
             .AllReduce("factor", View(values),
                        {.prescale = wrong ? std::numeric_limits<double>::infinity() : 1.0})
             .Wait());
    const std::vector<int64_t> splits = {std::numeric_limits<int64_t>::max(),
                                         std::numeric_limits<int64_t>::max()};
    note(collectives
             .AllToAll("splits", View(values),
                       wrong ? std::span<const int64_t>(splits) : std::span<const int64_t>())
             .Wait());
    note(collectives.BroadcastBytes("roots", "text", comm.rank()).status());
    note(collectives.BroadcastBytes("root", "text", wrong ? 7 : 0).status());
    note(collectives.AllReduce("absent", View(values)).Wait());
    return texts;
  });
  const char* const parts[] = {"the tensor is absent",
                               "the output has another shape",
                               "a scale factor is not a finite number",
                               "a split of 92233720368547",
                               "the roots differ between ranks: root 0 on rank 0, root 1 on rank 1",
                               "rank 1: there is no root 7 among 2 ranks",
                               ""};
  for (const std::vector<std::string>& texts : messages) {
    REQUIRE(texts.size() == std::size(parts));
    for (size_t i = 0; i < texts.size(); ++i) CHECK_THAT(texts[i], Catch::Contains(parts[i]));
    CHECK(texts.back().empty());
  }
}

TEST_CASE("a mismatch within a group names the ranks as the job counts them") {
  const auto texts = testing::RunRanks(4, [](Communicator& comm) -> std::string {
    const auto group = comm.Split(comm.rank() % 2);
    Collectives collectives(*group);
    std::vector<float> values(comm.rank() == 3 ? 5 : 4);
    return std::string(collectives.AllReduce("x", View(values)).Wait().message());
  });
  CHECK(texts[0].empty());
  CHECK_THAT(texts[1], Catch::Contains(" on rank 1, ") && Catch::Contains(" on rank 3"));
  CHECK(texts[1] == texts[3]);
}

TEST_CASE("a large average of halves over hosts does not overflow within one") {
  const auto means = testing::RunRanksOn({"a", "a", "b", "b"}, [](Communicator& comm) {
    std::vector<Float16> values(100000, Float16(40000.0f));
    comm.AllReduce(values.data(), 100000, DType::kFloat16, ReduceOp::kAverage);
    return static_cast<float>(values[77777]);
  });
  CHECK(means == std::vector<float>(4, 40000.0f));
}

TEST_CASE("38: a stall beside moving tensors is named as well, cached or not") {
  LogCapture log;
  double seconds = 0;  // until rank 0 was told
  const auto statuses = RunRanks(2, [&](Communicator& comm) {
    Collectives collectives(comm, {.stall_warning_seconds = 0.1, .timeout_seconds = 0.4});
    std::vector<float> values(10, 1.0f);
    std::vector<float> busy(10, 1.0f);
    Status status = collectives.AllReduce("known", View(values)).Wait();
    if (comm.rank() == 0) {
      const Timer timer;
      const auto stalled = collectives.AllReduce("known", View(values));
      while (!stalled.Poll()) {
        if (!collectives.AllReduce("busy", View(busy)).Wait().ok()) break;
      }
      status = stalled.Wait();
      seconds = timer.Seconds();
      return status;
    }
    while (collectives.AllReduce("busy", View(busy)).Wait().ok()) {
    }
    return collectives.AllReduce("busy", View(busy)).Wait();
  });
  CHECK_THAT(log.text(), Catch::Contains("\"known\" has waited"));
  CHECK(seconds < 0.8);
  for (const Status& status : statuses) {
    CHECK(testing::ExpectError(status, ExitCode::kCommunication,
                               {"\"known\" has waited", "for rank 1 (host a)"}) == "");
  }
}

TEST_CASE("a rank that leaves fails what the others have pending, by name") {
  const auto statuses = RunRanks(3, [](Communicator& comm) {
    Collectives collectives(comm);
    std::vector<float> values(10, 1.0f);
    if (comm.rank() == 2) return OkStatus();
    const auto pending = collectives.AllReduce("lonely", View(values));
    Status status = pending.Wait();
    DT_CHECK(!collectives.AllReduce("after", View(values)).Wait().ok());
    return status;
  });
  CHECK(statuses[2].ok());
  for (const int r : {0, 1}) {
    CHECK(testing::ExpectError(statuses[static_cast<size_t>(r)], ExitCode::kCommunication,
                               {"rank 2 (host a) has ended its collectives", "\"lonely\""}) == "");
  }
}

TEST_CASE("a rank that throws fails the others' tensors") {
  CHECK_THROWS_WITH(RunRanks(3,
                             [](Communicator& comm) {
                               Collectives collectives(comm);
                               DT_CHECK(comm.rank() != 2) << "broken";
                               std::vector<float> values(10, 1.0f);
                               DT_CHECK(!collectives.AllReduce("x", View(values)).Wait().ok());
                             }),
                    Catch::Contains("broken"));
}

TEST_CASE("a rank that throws does not wait for one that waits for it elsewhere") {
  CHECK_THROWS_WITH(RunRanks(2,
                             [](Communicator& comm) {
                               Collectives collectives(comm, {.timeout_seconds = 0});
                               DT_CHECK(comm.rank() != 1) << "broken";
                               comm.Barrier();
                             }),
                    Catch::Contains("broken"));
}

// A sum of two tensors in one exchange, or a gather, on a queue that has no memory on rank 1.
std::vector<Status> WithoutMemory(bool gathers, bool fails) {
  return RunRanks(3, [&](Communicator& comm) {
    internal::CollectiveQueue queue(comm.Split(0), {.timeout_seconds = 20},
                                    [&](const Shape& shape, DType dtype) {
                                      if (fails && comm.rank() == 1) throw std::bad_alloc();
                                      return NewTensor(shape, dtype);
                                    });
    std::vector<float> values(10, 1.0f);
    auto submitted = std::make_unique<internal::SubmittedCollective>();
    submitted->request = {.name = "weights",
                          .kind = gathers ? internal::CollectiveKind::kAllGather
                                          : internal::CollectiveKind::kAllReduce};
    for (int i = 0; i < (gathers ? 1 : 2); ++i) {
      submitted->inputs.push_back(View(values));
      submitted->request.items.push_back({DType::kFloat32, DeviceType::kCpu, Shape({10})});
    }
    if (!gathers) submitted->outputs = submitted->inputs;
    const auto result = queue.Submit(std::move(submitted));
    if (result->hurry) result->hurry();
    std::unique_lock lock(result->mutex);
    result->finished.wait(lock, [&] { return result->done.load(); });
    return result->outcome.status();
  });
}

TEST_CASE("a rank without memory is named on all ranks at once") {
  for (const bool gathers : {false, true}) {
    for (const Status& status : WithoutMemory(gathers, /*fails=*/false)) CHECK(status.ok());
    const Timer timer;
    const auto statuses = WithoutMemory(gathers, /*fails=*/true);
    CHECK(timer.Seconds() < 5);
    for (size_t r = 0; r < statuses.size(); ++r) {
      INFO("rank " << r);
      CHECK(testing::ExpectError(
                statuses[r], r == 1 ? ExitCode::kOutOfMemory : ExitCode::kCommunication,
                {"rank 1 (host a) has no memory for ", "\"weights\"", gathers ? "(40" : "(80"}) ==
            "");
    }
  }
}

}  // namespace
}  // namespace dtrain
