// heartbeat_wait_test.cc - how long a rank has waited, and whether it waits now.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/heartbeat_wait.h"

#include <chrono>
#include <thread>

#include "dtrain/comm/heartbeat.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

TEST_CASE("rounds of a wait add up, but one in which the process slept counts as a short one") {
  Heartbeat heartbeat;
  HeartbeatWait mark(&heartbeat);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    mark.Round();
  }
  const double waited = heartbeat.Read().waited_seconds;
  CHECK(waited >= 0.006 - 3e-6);  // counted in whole microseconds
  CHECK(waited <= 0.06);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  mark.Round();
  CHECK(heartbeat.Read().waited_seconds - waited <= 0.0201);
}

TEST_CASE("a rank waits from the first idle moment until something moves or the wait ends") {
  Heartbeat heartbeat;
  {
    HeartbeatWait mark(&heartbeat);
    CHECK_FALSE(heartbeat.Read().waiting);
    mark.Idle();
    mark.Idle();
    CHECK(heartbeat.Read().waiting);
    mark.Moved();
    CHECK_FALSE(heartbeat.Read().waiting);
    CHECK(heartbeat.Read().moves == 1);
    mark.Idle();
  }
  CHECK_FALSE(heartbeat.Read().waiting);
  HeartbeatWait nobody(nullptr);
  nobody.Round();
  nobody.Idle();
}

}  // namespace
}  // namespace dtrain::internal
