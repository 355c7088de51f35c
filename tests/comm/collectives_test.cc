// collectives_test.cc - named collectives on ranks as threads; stalls, late and failing ranks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/collectives.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <thread>

#include "comm/collectives_suite.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/self_communicator.h"
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

TEST_CASE("named movements on ranks as threads") {
  for (const int size : {1, 2, 3, 4}) CheckAll(OneHost(size), testing::MovementCases());
}

TEST_CASE("named collectives on two hosts") {
  CheckAll({"a", "a", "b", "b"}, testing::ReductionCases());
  CheckAll({"a", "b", "b"}, testing::MovementCases());
}

TEST_CASE("a single process needs nobody") {
  SelfCommunicator self;
  for (const auto& test_case : testing::ReductionCases()) CHECK(test_case.run(self) == "");
  for (const auto& test_case : testing::MovementCases()) CHECK(test_case.run(self) == "");
}

TEST_CASE("10,000 tensors in random orders, sizes and delays have exact sums") {
  const std::vector<std::string> wrong = RunRanks(
      4, [](Communicator& comm) { return testing::FuzzTheQueue(comm, 10000, /*seed=*/5); });
  for (const std::string& text : wrong) CHECK(text == "");
}

// Rank 1 of 3 comes late or never; the status of each rank.
std::vector<absl::Status> LateRank(double late_seconds, const CollectivesOptions& options) {
  return RunRanks(3, [&](Communicator& comm) {
    Collectives collectives(comm, options);
    std::vector<float> common(10, 1.0f);
    std::vector<float> values(10, 1.0f);
    absl::Status status = collectives.AllReduce("first", View(common)).Wait();
    if (!status.ok()) return status;
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::duration<double>(late_seconds));
    }
    return collectives.AllReduce("late", View(values)).Wait();
  });
}

TEST_CASE("38: a tensor that a rank lacks is named in a warning, then all goes on") {
  LogCapture log;
  for (const absl::Status& status : LateRank(0.4, {.stall_warning_seconds = 0.1})) {
    CHECK(status.ok());
  }
  CHECK_THAT(log.text(), Catch::Contains("for rank 1 (host a), which submitted nothing, with "
                                         "\"late\""));
}

TEST_CASE("38: after the time-out every rank has an error with the tensor and the rank") {
  LogCapture log;
  const auto statuses = LateRank(0.5, {.stall_warning_seconds = 0.1, .timeout_seconds = 0.25});
  for (const absl::Status& status : statuses) {
    CHECK(testing::ExpectError(status, ExitCode::kCommunication,
                               {"for rank 1 (host a)", "\"late\"", "gave up"}) == "");
  }
}

TEST_CASE("38: a stall beside moving tensors is named as well, cached or not") {
  LogCapture log;
  const auto statuses = RunRanks(2, [](Communicator& comm) {
    Collectives collectives(comm, {.stall_warning_seconds = 0.1, .timeout_seconds = 0.4});
    std::vector<float> values(10, 1.0f);
    std::vector<float> busy(10, 1.0f);
    absl::Status status = collectives.AllReduce("known", View(values)).Wait();
    if (comm.rank() == 0) {
      const auto stalled = collectives.AllReduce("known", View(values));
      while (!stalled.Poll()) {
        if (!collectives.AllReduce("busy", View(busy)).Wait().ok()) break;
      }
      return stalled.Wait();
    }
    while (collectives.AllReduce("busy", View(busy)).Wait().ok()) {
    }
    return collectives.AllReduce("busy", View(busy)).Wait();
  });
  CHECK_THAT(log.text(), Catch::Contains("\"known\" has waited"));
  for (const absl::Status& status : statuses) {
    CHECK(testing::ExpectError(status, ExitCode::kCommunication,
                               {"\"known\" has waited", "for rank 1 (host a)"}) == "");
  }
}

TEST_CASE("a rank that leaves fails what the others have pending, by name") {
  const auto statuses = RunRanks(3, [](Communicator& comm) {
    Collectives collectives(comm);
    std::vector<float> values(10, 1.0f);
    if (comm.rank() == 2) return absl::OkStatus();
    const auto pending = collectives.AllReduce("lonely", View(values));
    absl::Status status = pending.Wait();
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

}  // namespace
}  // namespace dtrain
