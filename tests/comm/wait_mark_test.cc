// wait_mark_test.cc - how long a rank has waited, and whether it waits now.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/wait_mark.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "dtrain/comm/pulse.h"

namespace dtrain::internal {
namespace {

TEST_CASE("rounds of a wait add up, but one in which the process slept counts as a short one") {
  Pulse pulse;
  WaitMark mark(&pulse);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    mark.Round();
  }
  const double waited = pulse.Read().waited_seconds;
  CHECK(waited >= 0.006 - 3e-6);  // counted in whole microseconds
  CHECK(waited <= 0.06);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  mark.Round();
  CHECK(pulse.Read().waited_seconds - waited <= 0.0201);
}

TEST_CASE("a rank waits from the first idle moment until something moves or the wait ends") {
  Pulse pulse;
  {
    WaitMark mark(&pulse);
    CHECK_FALSE(pulse.Read().waiting);
    mark.Idle();
    mark.Idle();
    CHECK(pulse.Read().waiting);
    mark.Moved();
    CHECK_FALSE(pulse.Read().waiting);
    CHECK(pulse.Read().moves == 1);
    mark.Idle();
  }
  CHECK_FALSE(pulse.Read().waiting);
  WaitMark nobody(nullptr);
  nobody.Round();
  nobody.Idle();
}

}  // namespace
}  // namespace dtrain::internal
