// device_wait.cc - the wait loop of collectives on a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/device_wait.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/internal/heartbeat_wait.h"

namespace dtrain::internal {

bool AwaitDevice(Communicator& comm, const std::function<WaitStep()>& step, double limit,
                 const std::function<std::string(double)>& describe, bool is_watched) {
  HeartbeatWait mark(HeartbeatOf(comm).get());
  bool has_warned = false;
  Timer idle;
  for (;;) {
    mark.Round();
    const WaitStep made = step();
    if (made == WaitStep::kDone) return true;
    comm.Poll();
    if (made == WaitStep::kMoved) {
      idle.Restart();
      mark.Moved();
    }
    const double seconds = idle.Seconds();
    // A collective that is nearly there is not awaited for much longer than it takes.
    std::this_thread::sleep_for(std::chrono::microseconds(seconds < 2e-3 ? 20 : 200));
    if (seconds < 0.1) continue;
    mark.Idle();
    const Heartbeat::Judgement judgement = HeartbeatOf(comm)->judgement();
    if (!judgement.failure.empty()) {
      throw CommError(absl::StrCat(judgement.failure, "; ", describe(seconds)));
    }
    if (judgement.watched && is_watched) continue;
    if (seconds > limit) return false;
    if (seconds > comm.options().slow_seconds && !std::exchange(has_warned, true)) {
      LogWarning(describe(seconds));
    }
  }
}

}  // namespace dtrain::internal
