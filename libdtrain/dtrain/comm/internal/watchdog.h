// watchdog.h - names the late rank while others wait for it, and ends the wait after a timeout.
// SPDX-License-Identifier: Apache-2.0
//
// A rank that has waited CommunicatorOptions::slow_seconds tells all others in which collective it
// waits. So each waiting rank knows who waits as well and who is silent: a silent rank is stopped,
// hung or still computing. Nothing is sent while collectives move.
#ifndef DTRAIN_COMM_INTERNAL_WATCHDOG_H_
#define DTRAIN_COMM_INTERNAL_WATCHDOG_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/transport.h"

namespace dtrain::internal {

// The collective a rank waits in. Plain bytes: it is sent as it lies.
struct WaitState {
  int64_t sequence = 0;
  char collective[24] = {};
};

class Watchdog {
 public:
  // `transport` must outlive the watchdog; `tag` is used by nothing else.
  Watchdog(Transport* transport, int rank, std::vector<std::string> hosts, int tag,
           const CommunicatorOptions& options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Called while nothing moves. `missing` are the ranks whose messages the collective lacks. Warns
  // once after slow_seconds, throws CommError after timeout_seconds.
  void OnIdle(const WaitState& state, double seconds, const std::vector<int>& missing);

 private:
  struct Peer {
    Transport::Request receive = -1;
    WaitState incoming;
    WaitState last;  // sequence -1: nothing heard
  };

  void Exchange(const WaitState& state);
  void Listen();
  // "rank 0 (host a) has waited 10 s in AllReduce, collective number 7, for rank 1 (host b)"
  std::string DescribeWait(const WaitState& state, double seconds,
                           const std::vector<int>& missing) const;
  // What has been heard from the missing ranks.
  std::string DescribeOthers(const WaitState& state, const std::vector<int>& missing) const;
  std::string RankName(int rank) const;

  Transport* transport_;
  int rank_;
  std::vector<std::string> hosts_;
  int tag_;
  CommunicatorOptions options_;
  std::vector<Peer> peers_;
  std::deque<WaitState> sent_;  // send buffers; never freed, one per long wait
  int64_t announced_ = -1;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_WATCHDOG_H_
