// collectives_joins_test.cc - joins that wait while other ranks stall, leave or give up.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/collectives_suite.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/collectives.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanks;
using testing::View;

TEST_CASE("a join that waits ends with an error where a rank leaves or gives up") {
  for (const bool by_abort : {false, true}) {
    INFO("by abort: " << by_abort);
    const auto statuses = RunRanks(3, [&](Communicator& comm) -> Status {
      Collectives collectives(comm, {.timeout_seconds = 10});
      if (comm.rank() != 2) return collectives.Join().status();
      // By now the others' joins are under way, as a rule; the outcome is the same if not.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (by_abort) collectives.Abort("a test");
      return OkStatus();
    });
    for (const size_t rank : {size_t{0}, size_t{1}}) {
      CHECK(testing::ExpectError(statuses[rank], ExitCode::kCommunication,
                                 {"rank 2 (host a) has ended its collectives"}) == "");
    }
  }
}

TEST_CASE("38: a rank that has joined is not named where another one is late") {
  std::mutex mutex;
  std::string log;
  const LogSink previous = SetLogSink([&](LogLevel, std::string_view message) {
    const std::lock_guard lock(mutex);
    log += std::string(message) + "\n";
  });
  RunRanks(3, [](Communicator& comm) {
    Collectives collectives(comm, {.stall_warning_seconds = 0.1, .timeout_seconds = 10});
    std::vector<float> busy(10, 1.0f);
    std::vector<float> lacking(10, 1.0f);
    CollectiveHandle handle;
    if (comm.rank() == 0) handle = collectives.AllReduce("lacking", View(lacking));
    // Ranks 0 and 1 vote all the while, so that the table of requests is what tells.
    for (int i = 0; i < 40 && comm.rank() != 2; ++i) {
      DT_CHECK(collectives.AllReduce("busy", View(busy)).Wait().ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (comm.rank() == 1) handle = collectives.AllReduce("lacking", View(lacking));
    if (comm.rank() != 2) DT_CHECK(handle.Wait().ok());
    DT_CHECK(collectives.Join().ok());
  });
  SetLogSink(previous);
  CHECK_THAT(log, Catch::Contains("\"lacking\" has waited") &&
                      Catch::Contains(" s for rank 1 (host a); other ranks have submitted it"));
}

}  // namespace
}  // namespace dtrain
