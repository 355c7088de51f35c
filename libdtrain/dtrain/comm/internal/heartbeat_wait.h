// heartbeat_wait.h - reports a wait in the heartbeats: whether it is idle, and its length.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_HEARTBEAT_WAIT_H_
#define DTRAIN_COMM_INTERNAL_HEARTBEAT_WAIT_H_

#include <algorithm>
#include <utility>

#include "dtrain/base/timer.h"
#include "dtrain/comm/heartbeat.h"

namespace dtrain::internal {

class HeartbeatWait {
 public:
  // `heartbeat` may be null.
  explicit HeartbeatWait(Heartbeat* heartbeat) : heartbeat_(heartbeat) {}
  ~HeartbeatWait() { Moved(); }
  HeartbeatWait(const HeartbeatWait&) = delete;
  HeartbeatWait& operator=(const HeartbeatWait&) = delete;

  // Call it in every round of the loop that waits. At most 20 ms of a round count: in a longer one
  // the process was descheduled.
  void Round() {
    constexpr double kLongest = 0.02;
    if (heartbeat_ != nullptr) heartbeat_->AddWait(std::min(round_.Restart(), kLongest));
  }
  // Nothing moves.
  void Idle() {
    if (heartbeat_ != nullptr && !std::exchange(is_idle_, true)) heartbeat_->BeginWait();
  }
  // Something has moved, or the wait is over.
  void Moved() {
    if (heartbeat_ == nullptr) return;
    heartbeat_->CountMove();
    if (std::exchange(is_idle_, false)) heartbeat_->EndWait();
  }

 private:
  Heartbeat* heartbeat_;
  Timer round_;
  bool is_idle_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_HEARTBEAT_WAIT_H_
