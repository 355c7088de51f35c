// request_inbox.h - what signals on any rank ask the trainer to do: save, stop, trace.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_REQUEST_INBOX_H_
#define DTRAIN_TRAIN_REQUEST_INBOX_H_

#include <limits>

#include "dtrain/base/stop_flags.h"

namespace dtrain {

struct Requests {
  bool checkpoint = false;
  bool stop = false;
  bool timeline = false;  // start a timeline, or end the one that runs

  friend bool operator==(const Requests&, const Requests&) = default;
};

// In every update each rank reads its own flags, the ranks combine what they read, and the trainer
// takes what it should act on:
//
//   const Requests own = inbox.Read();
//   const Requests arrived = inbox.DropRepeated(AnyRank(own));
//   const Requests due = inbox.Take(arrived, seconds, /*may_act=*/weights_are_equal);
//
// mpirun passes a signal to the ranks one after the other. Requests of one kind within a second of
// each other therefore count as one.
class RequestInbox {
 public:
  // The flags outlive this. Null: no requests.
  void set_flags(StopFlags* flags) { flags_ = flags; }

  // This rank's flags. Clears those for a checkpoint and a timeline.
  Requests Read();
  bool is_stop_requested() const { return flags_ != nullptr && flags_->stop; }

  // `heard`: the requests of any rank in this update. Removes those heard in the update before:
  // ranks may notice one signal just before and just after they exchange.
  Requests DropRepeated(const Requests& heard);

  // Returns what to do now, at `seconds` of training. While the trainer may not act, requests for
  // a checkpoint or a stop wait for a later call.
  Requests Take(const Requests& arrived, double seconds, bool may_act);

 private:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  StopFlags* flags_ = nullptr;
  Requests heard_;    // in the last update
  Requests waiting_;  // until the trainer may act
  double last_checkpoint_ = kNever;
  double last_timeline_ = kNever;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_REQUEST_INBOX_H_
