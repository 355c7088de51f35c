// wait_watchdog.cc - exchanges wait states during long waits and words the report.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/wait_watchdog.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"

namespace dtrain::internal {
namespace {

constexpr char kAdvice[] =
    ". Look at the log and the host of the rank named; run.comm_timeout, or "
    "DTRAIN_COMM_TIMEOUT in seconds, sets the limit";

}  // namespace

WaitWatchdog::WaitWatchdog(Transport* transport, int tag, const RankTopology& topology,
                           const CommunicatorOptions& options)
    : transport_(transport),
      tag_(tag),
      topology_(topology),
      options_(options),
      peers_(static_cast<size_t>(topology.size())) {
  for (Peer& peer : peers_) peer.last.sequence = -1;
}

WaitWatchdog::~WaitWatchdog() {
  for (const Peer& peer : peers_) {
    if (peer.receive >= 0) transport_->Cancel(peer.receive);
  }
}

void WaitWatchdog::OnIdle(const WaitState& state, double seconds, const std::vector<int>& missing,
                          const Heartbeat::Judgement& judgement) {
  if (!judgement.failure.empty()) {
    throw CommError(
        absl::StrCat(DescribeWait(state, seconds, missing), "; ", judgement.failure, kAdvice));
  }
  if (judgement.watched) return;
  const double slow = std::min(options_.slow_seconds, options_.timeout_seconds / 2);
  if (seconds < slow) return;
  if (announced_ != state.sequence) {
    announced_ = state.sequence;
    Exchange(state);
    LogWarning(DescribeWait(state, seconds, missing));
  }
  Listen();
  if (seconds < options_.timeout_seconds) return;
  throw CommError(absl::StrCat(DescribeWait(state, seconds, missing),
                               DescribeOthers(state, missing), "; gave up", kAdvice));
}

void WaitWatchdog::Exchange(const WaitState& state) {
  sent_.push_back(state);
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    if (r == topology_.rank()) continue;
    // The request is left to itself: a stopped rank never takes it, and sent_ keeps the memory.
    transport_->Send(r, tag_, &sent_.back(), sizeof(WaitState));
  }
}

void WaitWatchdog::Listen() {
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    if (r == topology_.rank()) continue;
    Peer& peer = peers_[static_cast<size_t>(r)];
    if (peer.receive < 0) {
      peer.receive = transport_->Receive(r, tag_, &peer.incoming, sizeof(WaitState));
    }
    if (!transport_->Done(peer.receive)) continue;
    peer.receive = -1;
    peer.last = peer.incoming;
  }
}

std::string WaitWatchdog::DescribeWait(const WaitState& state, double seconds,
                                       const std::vector<int>& missing) const {
  std::string text = absl::StrFormat("%s has waited %.0f s in %s, collective number %d",
                                     topology_.RankName(topology_.rank()), seconds,
                                     state.collective, state.sequence);
  if (!topology_.group_name().empty()) {
    absl::StrAppend(&text, " of the group of ", topology_.group_name());
  }
  const char* separator = ", for ";
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    if (std::find(missing.begin(), missing.end(), r) == missing.end()) continue;
    absl::StrAppend(&text, separator, topology_.RankName(r));
    separator = ", ";
  }
  return text;
}

std::string WaitWatchdog::DescribeOthers(const WaitState& state,
                                         const std::vector<int>& missing) const {
  std::string text;
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    if (std::find(missing.begin(), missing.end(), r) == missing.end()) continue;
    const WaitState& last = peers_[static_cast<size_t>(r)].last;
    absl::StrAppend(&text, "; ", topology_.RankName(r));
    if (last.sequence < state.sequence) {
      absl::StrAppend(&text, " is silent: stopped, hung or still computing");
    } else if (last.sequence != state.sequence ||
               std::strcmp(last.collective, state.collective) != 0) {
      absl::StrAppend(&text, " waits in ", last.collective, ", collective number ", last.sequence,
                      ": the ranks are out of step");
    } else {
      absl::StrAppend(&text, " waits as well");
    }
  }
  return text;
}

}  // namespace dtrain::internal
