// request_inbox.cc - repeated signals count once, early ones wait.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/request_inbox.h"

#include <utility>

namespace dtrain {
namespace {

// Within this time all ranks have the signal that one of them has.
constexpr double kSignalSpreadSeconds = 1.0;

// Whether a request at `seconds` is not the same signal as the last one, of which it takes the
// place.
bool IsNew(double seconds, double& last) {
  if (seconds - last <= kSignalSpreadSeconds) return false;
  last = seconds;
  return true;
}

}  // namespace

Requests RequestInbox::Read() {
  if (flags_ == nullptr) return {};
  return {.checkpoint = flags_->checkpoint.exchange(false),
          .stop = flags_->stop,
          .timeline = flags_->timeline.exchange(false)};
}

Requests RequestInbox::DropRepeated(const Requests& heard) {
  const Requests before = std::exchange(heard_, heard);
  return {.checkpoint = heard.checkpoint && !before.checkpoint,
          .stop = heard.stop,
          .timeline = heard.timeline && !before.timeline};
}

Requests RequestInbox::Take(const Requests& arrived, double seconds, bool may_act) {
  waiting_.checkpoint = waiting_.checkpoint || arrived.checkpoint;
  waiting_.stop = waiting_.stop || arrived.stop;
  Requests due = may_act ? std::exchange(waiting_, {}) : Requests();
  due.checkpoint = due.checkpoint && IsNew(seconds, last_checkpoint_);
  due.timeline = arrived.timeline && IsNew(seconds, last_timeline_);
  return due;
}

}  // namespace dtrain
