// wait_mark.h - says in heartbeats whether a wait is idle, and how long a rank has waited in all.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_WAIT_MARK_H_
#define DTRAIN_COMM_INTERNAL_WAIT_MARK_H_

#include <algorithm>
#include <utility>

#include "dtrain/base/timer.h"
#include "dtrain/comm/pulse.h"

namespace dtrain::internal {

class WaitMark {
 public:
  // `pulse` may be null.
  explicit WaitMark(Pulse* pulse) : pulse_(pulse) {}
  ~WaitMark() { Moved(); }
  WaitMark(const WaitMark&) = delete;
  WaitMark& operator=(const WaitMark&) = delete;

  // In every round of the loop that waits. A round that took long was none: the process did not
  // run.
  void Round() {
    constexpr double kLongest = 0.02;
    if (pulse_ != nullptr) pulse_->AddWait(std::min(round_.Restart(), kLongest));
  }
  void Idle() {
    if (pulse_ != nullptr && !std::exchange(is_idle_, true)) pulse_->BeginWait();
  }
  void Moved() {
    if (pulse_ == nullptr) return;
    pulse_->CountMove();
    if (std::exchange(is_idle_, false)) pulse_->EndWait();
  }

 private:
  Pulse* pulse_;
  Timer round_;
  bool is_idle_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_WAIT_MARK_H_
