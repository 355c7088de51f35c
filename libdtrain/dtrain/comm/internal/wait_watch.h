// wait_watch.h - names the late rank while others wait for it, and ends the wait after a timeout.
// SPDX-License-Identifier: Apache-2.0
//
// A rank that has waited CommunicatorOptions::slow_seconds tells all others in which collective it
// waits. So each waiting rank knows who waits as well and who is silent: a silent rank is stopped,
// hung or still computing. Nothing is sent while collectives move. Where heartbeats arrive, those
// who watch them decide instead (job_watch.h).
#ifndef DTRAIN_COMM_INTERNAL_WAIT_WATCH_H_
#define DTRAIN_COMM_INTERNAL_WAIT_WATCH_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/transport.h"
#include "dtrain/comm/pulse.h"

namespace dtrain::internal {

// The collective a rank waits in. Plain bytes: it is sent as it lies.
struct WaitState {
  int64_t sequence = 0;
  char collective[24] = {};
};

class WaitWatch {
 public:
  // `transport` must outlive the watch; `tag` is used by nothing else. Names of ranks and group,
  // and the limits, are those of `comm`, which may still be under construction.
  WaitWatch(Transport* transport, int tag, const Communicator& comm);
  ~WaitWatch();
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;

  // Called while nothing moves. `missing` are the ranks whose messages the collective lacks. Warns
  // once after slow_seconds, throws CommError after timeout_seconds; where the job is watched, it
  // throws when it is judged to have failed.
  void OnIdle(const WaitState& state, double seconds, const std::vector<int>& missing,
              const Pulse::Judgement& judgement);

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

  Transport* transport_;
  int rank_;
  std::vector<std::string> names_;  // of the ranks
  std::string group_name_;
  int tag_;
  CommunicatorOptions options_;
  std::vector<Peer> peers_;
  std::deque<WaitState> sent_;  // send buffers; never freed, one per long wait
  int64_t announced_ = -1;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_WAIT_WATCH_H_
