// communicator_test.cc - ranks as threads and the single rank; failures and timeouts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/communicator.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include "comm/communicator_suite.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::CommunicatorCases;
using testing::RunRanks;
using testing::RunRanksOn;

void CheckAll(const std::vector<std::string>& hosts, CommunicatorOptions options) {
  options.timeout_seconds = 20;  // what is broken must not take the test's time
  for (const auto& test_case : CommunicatorCases()) {
    INFO(test_case.name << ", " << hosts.size() << " ranks");
    const std::vector<std::string> wrong = RunRanksOn(hosts, test_case.run, options);
    for (size_t r = 0; r < wrong.size(); ++r) {
      INFO("rank " << r);
      CHECK(wrong[r] == "");
    }
  }
}

TEST_CASE("ranks as threads pass the suite") {
  for (const int size : {1, 2, 3, 4}) CheckAll(testing::OneHost(size), {});
}

TEST_CASE("what cannot be gathered or scattered is refused and does not hold up what follows") {
  for (const bool shared : {true, false}) {
    const auto sums = RunRanksOn(
        testing::OneHost(2),
        [](Communicator& comm) {
          std::vector<std::byte> bytes(8);
          const std::vector<int64_t> falling = {0, 5, 4};
          int64_t sum = 0;
          try {
            comm.StartAllGatherV(bytes.data(), falling)->Wait();
          } catch (const CheckError&) {
            sum += 1;
          }
          try {
            comm.StartReduceScatter(bytes.data(), falling, DType::kUint8, ReduceOp::kSum)->Wait();
          } catch (const CheckError&) {
            sum += 10;
          }
          comm.AllReduce(&sum, 1, DType::kInt64, ReduceOp::kSum);
          return sum;
        },
        {.timeout_seconds = 20, .shared_memory = shared});
    CHECK(sums == std::vector<int64_t>{22, 22});
  }
}

TEST_CASE("ranks as threads that share no memory pass the suite") {
  for (const int size : {2, 3, 4}) CheckAll(testing::OneHost(size), {.shared_memory = false});
}

TEST_CASE("messages cut into the smallest pieces pass the suite") {
  CheckAll(testing::OneHost(3), {.piece_bytes = 8192, .small_bytes = 0, .shared_memory = false});
  CheckAll(testing::OneHost(3), {.small_bytes = 0, .slot_bytes = 4096});
}

// Sums, scattered sums and gathers of many large pieces, the last of an odd size: the first go
// through the caches, then some go past them. What is wrong, or nothing.
template <typename T>
std::string ExchangeLarge(Communicator& comm) {
  constexpr int64_t kBytes = 40 * (64 << 10) + 3 * 7919 * 8;
  const auto count = kBytes / static_cast<int64_t>(sizeof(T));
  const auto of_rank = [](int rank, int64_t i) {
    return static_cast<T>(static_cast<float>((i * 7 + rank) % 5));
  };
  const auto sum = [&](int64_t i) {
    float total = 0;
    for (int r = 0; r < comm.size(); ++r) total += static_cast<float>(of_rank(r, i));
    return static_cast<T>(total);
  };
  std::vector<T> values(static_cast<size_t>(count));
  const auto fill = [&] {
    for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = of_rank(comm.rank(), i);
  };
  const auto check = [&](const char* what, int64_t begin, int64_t end) -> std::string {
    for (int64_t i = begin; i < end; ++i) {
      if (static_cast<float>(values[static_cast<size_t>(i)]) != static_cast<float>(sum(i))) {
        return std::string(what) + " at " + std::to_string(i);
      }
    }
    return "";
  };
  fill();
  comm.AllReduce(std::span<T>(values), ReduceOp::kSum);
  std::string wrong = check("sum", 0, count);
  if (!wrong.empty()) return wrong;
  fill();
  std::vector<int64_t> offsets = {0};
  for (int r = 1; r <= comm.size(); ++r) offsets.push_back(count * r / comm.size());
  comm.StartReduceScatter(values.data(), offsets, kDTypeOf<T>, ReduceOp::kSum)->Wait();
  const auto me = static_cast<size_t>(comm.rank());
  wrong = check("scattered sum", offsets[me], offsets[me + 1]);
  if (!wrong.empty()) return wrong;
  for (int64_t& offset : offsets) offset *= static_cast<int64_t>(sizeof(T));
  comm.StartAllGatherV(values.data(), offsets)->Wait();
  return check("gathered sum", 0, count);
}

TEST_CASE("pieces that go past the caches are summed, scattered and gathered") {
  const auto check = [](const std::vector<std::string>& hosts, auto run) {
    const CommunicatorOptions options{.timeout_seconds = 20, .slot_bytes = 64 << 10};
    for (const std::string& wrong : RunRanksOn(hosts, run, options)) CHECK(wrong == "");
  };
  for (const auto& hosts :
       {testing::OneHost(2), testing::OneHost(3), std::vector<std::string>{"a", "a", "b", "b"}}) {
    check(hosts, ExchangeLarge<float>);
    check(hosts, ExchangeLarge<double>);
    check(hosts, ExchangeLarge<BFloat16>);
    check(hosts, ExchangeLarge<Float16>);
    check(hosts, ExchangeLarge<int32_t>);
    check(hosts, ExchangeLarge<int64_t>);
    check(hosts, ExchangeLarge<uint8_t>);
  }
}

TEST_CASE("more ranks on a host than a slot has cache lines sum by messages") {
  constexpr int kRanks = 65;
  const auto right =
      RunRanksOn(testing::OneHost(kRanks),
                 [](Communicator& comm) {
                   std::vector<int64_t> values(1000, comm.rank());
                   comm.AllReduce(std::span<int64_t>(values), ReduceOp::kSum);
                   return std::count(values.begin(), values.end(), kRanks * (kRanks - 1) / 2);
                 },
                 {.timeout_seconds = 60, .small_bytes = 0, .slot_bytes = 4096});
  for (const auto of_rank : right) CHECK(of_rank == 1000);
}

TEST_CASE("ranks on several hosts pass the suite, evenly spread or not") {
  CheckAll({"a", "a", "b", "b"}, {.small_bytes = 64});
  CheckAll({"a", "b", "a", "b"}, {.small_bytes = 64});
  CheckAll({"a", "b", "a", "b"}, {.small_bytes = 64, .shared_memory = false});
  CheckAll({"a", "a", "b", "b"}, {.small_bytes = 64, .algorithm = AllReduceAlgorithm::kFlat});
  CheckAll({"a", "a", "b"}, {.small_bytes = 64});
}

TEST_CASE("a measured choice of the algorithm is the same on all ranks") {
  const auto sums = RunRanksOn({"a", "a", "b", "b"},
                               [](Communicator& comm) {
                                 std::vector<float> values(100000, 1.0f);
                                 comm.AllReduce(std::span<float>(values), ReduceOp::kSum);
                                 return values[99999];
                               },
                               {.algorithm = AllReduceAlgorithm::kMeasure});
  CHECK(sums == std::vector<float>(4, 4.0f));
}

TEST_CASE("the single rank passes the suite") {
  SelfCommunicator self;
  for (const auto& test_case : CommunicatorCases()) {
    INFO(test_case.name);
    CHECK(test_case.run(self) == "");
  }
}

TEST_CASE("the single rank refuses what several refuse") {
  SelfCommunicator self;
  std::vector<int64_t> data(2);
  const std::vector<int64_t> falling = {2, 1};
  CHECK_THROWS_WITH(self.AllReduce(data.data(), 2, DType::kInt64, ReduceOp::kAverage),
                    Catch::Contains("an average needs a floating type"));
  CHECK_THROWS_WITH(self.AllReduce(data.data(), 2, DType::kFloat32, ReduceOp::kBitAnd),
                    Catch::Contains("a bitwise and needs integers"));
  CHECK_THROWS_AS(self.AllReduce(data.data(), -1, DType::kInt64, ReduceOp::kSum), CheckError);
  CHECK_THROWS_AS(self.AllReduce(nullptr, 2, DType::kInt64, ReduceOp::kSum), CheckError);
  CHECK_THROWS_AS(self.Broadcast(data.data(), -1, 0), CheckError);
  CHECK_THROWS_WITH(self.Broadcast(data.data(), 8, 1), Catch::Contains("root 1 of 1 ranks"));
  CHECK_THROWS_WITH(
      self.StartReduceScatter(data.data(), falling, DType::kInt64, ReduceOp::kSum)->Wait(),
      Catch::Contains("the part of rank 0"));
  CHECK_THROWS_AS(self.StartAllGatherV(data.data(), falling)->Wait(), CheckError);
  CHECK_THROWS_AS(self.StartAllToAllV(data.data(), falling, data.data(), falling)->Wait(),
                  CheckError);
}

TEST_CASE("two hosts of two ranks send each byte across the network once per host") {
  const auto sent = RunRanksOn({"a", "a", "b", "b"},
                               [](Communicator& comm) {
                                 std::vector<float> data(1 << 16);
                                 comm.AllReduce(std::span<float>(data), ReduceOp::kSum);
                                 return comm.bytes_sent();
                               },
                               {.small_bytes = 64});
  // Half within the host to reduce, a quarter across twice, half within the host to gather.
  for (const int64_t bytes : sent) CHECK(bytes == (4 << 16) * 3 / 2);
}

TEST_CASE("a rank that stays away is named after the timeout, in a warning and in the error") {
  std::mutex mutex;
  std::string log;
  const LogSink previous = SetLogSink([&](LogLevel, std::string_view message) {
    const std::lock_guard lock(mutex);
    log += std::string(message) + "\n";
  });
  double seconds = 0;  // of rank 0's patience
  const auto errors = RunRanks(3,
                               [&](Communicator& comm) -> std::string {
                                 comm.Barrier();
                                 if (comm.rank() == 1) {
                                   std::this_thread::sleep_for(std::chrono::milliseconds(1000));
                                   return "";
                                 }
                                 const Timer timer;
                                 try {
                                   comm.AllReduceValue(1.0f, ReduceOp::kSum);
                                 } catch (const CommError& error) {
                                   if (comm.is_root()) seconds = timer.Seconds();
                                   return error.what();
                                 }
                                 return "no exception";
                               },
                               {.timeout_seconds = 0.6, .slow_seconds = 0.2});
  SetLogSink(previous);
  CHECK(seconds > 0.6);
  CHECK(seconds < 1.2);
  CHECK_THAT(errors[0], Catch::Contains("rank 0 (host a) has waited 1 s in AllReduce, collective "
                                        "number 1, for rank 1 (host a)"));
  CHECK_THAT(errors[0], Catch::Contains("rank 1 (host a) is silent"));
  CHECK_THAT(errors[0], Catch::Contains("DTRAIN_COMM_TIMEOUT"));
  CHECK_THAT(errors[2], Catch::Contains("rank 2 (host a) has waited"));
  CHECK_THAT(errors[2], Catch::Contains("for rank 1 (host a); rank 1 (host a) is silent"));
  CHECK_THAT(log, Catch::Contains("rank 0 (host a) has waited 0 s in AllReduce, collective number "
                                  "1, for rank 1 (host a)"));
}

TEST_CASE("ranks in different collectives are told that they are out of step") {
  const auto errors = RunRanks(2,
                               [](Communicator& comm) -> std::string {
                                 try {
                                   if (comm.rank() == 1) comm.Barrier();
                                   std::vector<char> data(100);
                                   comm.Broadcast(data.data(), 100, 0);
                                   comm.Barrier();
                                 } catch (const CommError& error) {
                                   return error.what();
                                 }
                                 return "";
                               },
                               {.timeout_seconds = 0.6, .slow_seconds = 0.2});
  CHECK_THAT(errors[0] + errors[1], Catch::Contains("out of step"));
}

std::vector<std::string> SumsOfDifferentSizes(const CommunicatorOptions& options) {
  return RunRanks(
      2,
      [](Communicator& comm) -> std::string {
        std::vector<float> data(static_cast<size_t>(10 + comm.rank()));
        try {
          comm.AllReduce(std::span<float>(data), ReduceOp::kSum);
          comm.Barrier();
        } catch (const CommError& error) {
          return error.what();
        }
        return "";
      },
      options);
}

TEST_CASE("ranks that disagree on a size are told so at once") {
  const auto messages = SumsOfDifferentSizes({.shared_memory = false});
  CHECK_THAT(messages[0], Catch::Contains("rank 1 sent 44 bytes where 40 were expected"));
  CHECK_THAT(messages[1], Catch::Contains("rank 0 sent 40 bytes where 44 were expected"));
  for (const std::string& error : SumsOfDifferentSizes({})) {
    CHECK_THAT(error,
               Catch::Contains("out of step") &&
                   Catch::Contains("rank 0 is at collective number 0, 40 bytes of float32") &&
                   Catch::Contains("rank 1 is at collective number 0, 44 bytes of float32"));
  }
}

TEST_CASE("ranks that disagree on cuts or reductions of one size are told so at once") {
  const auto errors_of = [](const std::function<void(Communicator&)>& exchange) {
    return RunRanks(2,
                    [&](Communicator& comm) -> std::string {
                      try {
                        exchange(comm);
                        comm.Barrier();
                      } catch (const CommError& error) {
                        return error.what();
                      }
                      return "no exception";
                    },
                    {.timeout_seconds = 5});
  };
  const auto cuts = errors_of([](Communicator& comm) {
    std::vector<char> data(100);
    const std::vector<int64_t> offsets = {0, comm.is_root() ? 40 : 60, 100};
    comm.StartAllGatherV(data.data(), offsets)->Wait();
  });
  const auto reductions = errors_of([](Communicator& comm) {
    comm.AllReduceValue(1.0f, comm.is_root() ? ReduceOp::kSum : ReduceOp::kMax);
  });
  for (const size_t rank : {size_t{0}, size_t{1}}) {
    CHECK_THAT(cuts[rank], Catch::Contains("out of step") && Catch::Contains("100 bytes"));
    CHECK_THAT(reductions[rank], Catch::Contains("out of step") &&
                                     Catch::Contains("reduce by sum") &&
                                     Catch::Contains("reduce by max"));
  }
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("a rank whose communication fails leaves a record of its last collectives") {
  const TemporaryFolder directory;
  LogSink previous = SetLogSink([](LogLevel, std::string_view) {});
  bool has_failed = false;
  RunRanks(2,
           [&](Communicator& comm) {
             for (int i = 0; i < 1500; ++i) comm.AllReduceValue(i, ReduceOp::kSum);
             if (comm.rank() == 1) return;
             try {
               comm.AllReduceValue(1.0, ReduceOp::kSum);
             } catch (const CommError&) {
               has_failed = true;
             }
           },
           {.timeout_seconds = 0.2, .record_directory = directory.path()});
  SetLogSink(previous);
  CHECK(has_failed);
  const auto lines = LinesOf(directory.File("collectives-rank-00000.jsonl"));
  REQUIRE(lines.size() == 1025);
  CHECK_THAT(lines[0], Catch::Contains("\"rank\": 0") && Catch::Contains("for rank 1 (host a)"));
  CHECK_THAT(lines[1], Catch::Contains("\"sequence\": 477, \"collective\": \"AllReduce\", "
                                       "\"bytes\": 4") &&
                           Catch::Contains("end_s"));
  CHECK_THAT(lines[1024], Catch::Contains("\"sequence\": 1500") && !Catch::Contains("end_s"));
}

TEST_CASE("a group names its ranks as the job counts them, and keeps a record of its own") {
  const TemporaryFolder directory;
  LogSink previous = SetLogSink([](LogLevel, std::string_view) {});
  const auto messages = RunRanksOn({"a", "a", "b", "b"},
                                   [](Communicator& comm) -> std::string {
                                     const auto group = comm.Split(comm.rank() % 2);
                                     const auto pair = group->Split(0);  // the same ranks once more
                                     if (comm.rank() >= 2) return pair->topology().RankName(1);
                                     try {
                                       pair->Barrier();
                                     } catch (const CommError& error) {
                                       return error.what();
                                     }
                                     return "";
                                   },
                                   {.timeout_seconds = 0.2, .record_directory = directory.path()});
  SetLogSink(previous);
  CHECK_THAT(messages[0], Catch::Contains("rank 0 (host a) has waited") &&
                              Catch::Contains("collective number 0 of the group of ranks 0, 2, for "
                                              "rank 2 (host b)"));
  CHECK_THAT(messages[1], Catch::Contains("group of ranks 1, 3, for rank 3 (host b)"));
  CHECK(messages[3] == "rank 3 (host b)");
  const auto lines = LinesOf(directory.File("collectives-rank-00001-group-2.jsonl"));
  REQUIRE(lines.size() == 2);
  CHECK_THAT(
      lines[0],
      Catch::Contains("\"rank\": 1, \"host\": \"a\", \"group\": 2, \"members\": \"ranks 1, 3\""));
  CHECK(LinesOf(directory.File("collectives-rank-00000-group-2.jsonl")).size() == 2);
}

TEST_CASE("ranks of a group that are out of step are named as the job counts them") {
  for (const bool shared_memory : {false, true}) {
    const auto messages = RunRanksOn(testing::OneHost(4),
                                     [](Communicator& comm) -> std::string {
                                       const auto group = comm.Split(comm.rank() / 2);
                                       std::vector<float> data(comm.rank() == 3 ? 11 : 10);
                                       try {
                                         group->AllReduce(std::span<float>(data), ReduceOp::kSum);
                                         group->Barrier();
                                       } catch (const CommError& error) {
                                         return error.what();
                                       }
                                       return "";
                                     },
                                     {.shared_memory = shared_memory});
    INFO(messages[2]);
    CHECK(messages[0] == "");
    CHECK_THAT(messages[2], Catch::Contains("rank 3 ") && !Catch::Contains("rank 1 "));
    CHECK_THAT(messages[3], Catch::Contains("rank 2 ") && !Catch::Contains("rank 0 "));
  }
}

TEST_CASE("a rank that throws ends the others' collectives") {
  CHECK_THROWS_WITH(RunRanks(3,
                             [](Communicator& comm) {
                               DT_CHECK(comm.rank() != 2) << "broken";
                               comm.Barrier();
                             }),
                    Catch::Contains("broken"));
}

}  // namespace
}  // namespace dtrain
