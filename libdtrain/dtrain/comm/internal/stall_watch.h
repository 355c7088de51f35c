// stall_watch.h - when ranks are late for a collective: warns once, then gives up.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_STALL_WATCH_H_
#define DTRAIN_COMM_INTERNAL_STALL_WATCH_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/negotiation.h"

namespace dtrain::internal {

class StallWatch {
 public:
  // After warning_seconds a warning names the late ranks. After timeout_seconds the queue ends; 0:
  // never.
  StallWatch(RankTopology topology, double warning_seconds, double timeout_seconds)
      : topology_(std::move(topology)),
        warning_seconds_(warning_seconds),
        timeout_seconds_(timeout_seconds) {}

  // The seconds until the first of the two.
  double first_seconds() const;

  // True if a wait of this length for votes calls for a message.
  bool IsVoteWaitDue(double seconds) const {
    return (seconds > warning_seconds_ && !has_warned_) || IsTooLong(seconds);
  }
  // This rank has waited so long for the votes of the ranks in `missing`; if that is empty, for
  // messages. `pending` names this rank's tensors, or is "". Returns why to give up, or "".
  std::string OnVoteWait(double seconds, std::span<const int> missing, const std::string& pending,
                         bool has_join);
  void EndVoteWait() { has_warned_ = false; }
  // Tensors that only some ranks have submitted, for first_seconds() or longer. The first of those
  // ranks speaks for all. Returns why to give up, or "".
  std::string OnStalled(const std::vector<Negotiation::Stalled>& stalled) const;

 private:
  bool IsTooLong(double seconds) const {
    return timeout_seconds_ > 0 && seconds > timeout_seconds_;
  }
  std::string RankNames(std::span<const int> ranks) const;

  RankTopology topology_;
  double warning_seconds_;
  double timeout_seconds_;
  bool has_warned_ = false;  // in this wait for votes
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_STALL_WATCH_H_
