// wait_watchdog.h - names the late rank while others wait for it, and ends a wait after a timeout.
// SPDX-License-Identifier: Apache-2.0
//
// A rank that has waited CommunicatorOptions::slow_seconds tells all others in which collective it
// waits. So each waiting rank knows which ranks wait as well and which are silent: a silent rank is
// stopped, hung or still computing. Nothing is sent while collectives move. If heartbeats arrive,
// the watchdog of the job decides instead (watchdog.h).
#ifndef DTRAIN_COMM_INTERNAL_WAIT_WATCHDOG_H_
#define DTRAIN_COMM_INTERNAL_WAIT_WATCHDOG_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/internal/transport.h"

namespace dtrain::internal {

// The collective that a rank waits in. It is sent as plain bytes.
struct WaitState {
  int64_t sequence = 0;
  char collective[24] = {};
};

class WaitWatchdog {
 public:
  // `transport` outlives the watchdog. Nothing else uses `tag`.
  WaitWatchdog(Transport* transport, int tag, const RankTopology& topology,
               const CommunicatorOptions& options);
  ~WaitWatchdog();
  WaitWatchdog(const WaitWatchdog&) = delete;
  WaitWatchdog& operator=(const WaitWatchdog&) = delete;

  // Called while nothing moves. The collective lacks messages of the ranks in `missing`. Warns once
  // after slow_seconds and throws CommError after timeout_seconds. If the job is watched, it throws
  // when the judgement has a failure.
  void OnIdle(const WaitState& state, double seconds, const std::vector<int>& missing,
              const Heartbeat::Judgement& judgement);

 private:
  struct Peer {
    Transport::Request receive = -1;
    WaitState incoming;
    WaitState last;  // its sequence is -1 until the rank has sent one
  };

  void Exchange(const WaitState& state);
  void Listen();
  // "rank 0 (host a) has waited 10 s in AllReduce, collective number 7, for rank 1 (host b)"
  std::string DescribeWait(const WaitState& state, double seconds,
                           const std::vector<int>& missing) const;
  // Describes what the missing ranks have reported.
  std::string DescribeOthers(const WaitState& state, const std::vector<int>& missing) const;

  Transport* transport_;
  int tag_;
  RankTopology topology_;
  CommunicatorOptions options_;
  std::vector<Peer> peers_;
  std::deque<WaitState> sent_;  // one send buffer per long wait; never freed
  int64_t announced_ = -1;      // the collective of the last warning
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_WAIT_WATCHDOG_H_
