// watchdog.h - decides from heartbeats which ranks are late, silent or out of step.
// SPDX-License-Identifier: Apache-2.0
//
// Rank 0 hears every rank and looks for all of these. The other ranks hear rank 0 alone and look
// for its silence; rank 0 tells them the rest (heartbeat_service.h). The job never ends because a
// rank is slow: while it computes, its heartbeats say so.
#ifndef DTRAIN_COMM_INTERNAL_WATCHDOG_H_
#define DTRAIN_COMM_INTERNAL_WATCHDOG_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/heartbeat.h"

namespace dtrain::internal {

// What a heartbeat reports about its rank. It is sent as plain bytes.
struct Beat {
  int32_t rank = 0;
  int32_t process = 0;
  int64_t count = 0;  // number of this rank's beats; a beat that was overtaken is dropped
  int64_t step = 0;
  int64_t sequence = 0;
  uint64_t digest = 0;
  int64_t moves = 0;
  int64_t cpu_milliseconds = 0;  // used by the process
  double waited_seconds = 0;     // spent waiting for other ranks
  Phase phase = Phase::kStart;
  bool waiting = false;
  bool leaving = false;               // the last beat
  bool named = false;                 // `collective` is a tensor's name
  std::array<char, 41> collective{};  // its beginning, as much as fits
};

// The result of one look at all heartbeats.
struct Findings {
  bool complete = false;  // every rank watched has been heard
  std::string note{};     // to be logged once, or ""
  std::string failure{};  // why the job must end, or ""
};

// Times in seconds, derived from CommunicatorOptions. With the defaults a silent rank is named
// within 10 s, and the job ends within timeout_seconds.
struct WatchTimes {
  explicit WatchTimes(const CommunicatorOptions& options);
  double beat;    // time between two beats
  double silent;  // time without a beat, after which the rank is named
  double slow;    // time that others wait for a rank, in one or many steps, until it is named
  double limit;   // time of silence, or without any movement, after which the job ends
};

class Watchdog {
 public:
  // Rank 0's own digest after this many collectives: Heartbeat::DigestAfter.
  using DigestAfter = std::function<std::optional<uint64_t>(int64_t)>;

  // hosts: the host of every rank. watched: the ranks whose beats arrive here.
  Watchdog(std::vector<std::string> hosts, const std::vector<int>& watched,
           const WatchTimes& times);

  // now: seconds of a clock that stops while this process is suspended.
  void Hear(const Beat& beat, double now);
  // Looks for silent ranks.
  Findings LookForSilence(double now);
  // Looks also for ranks out of step, ranks that keep others waiting, and a job that does not move.
  Findings Look(double now, const DigestAfter& digest_after);

 private:
  struct Peer {
    int rank = 0;
    bool heard = false;
    Beat beat;
    double heard_at = 0;
    double moved_at = 0;
    double freed_at = 0;  // when it last began or ended a wait, or moved: not slow before that
    bool named_silent = false;  // or named as never heard
    double named_slow_at = -1;  // negative if not since others began to wait
    double waited_before = 0;   // at the last look
    double waited_in_window = 0;
  };

  // Names a rank whose beats have never come, once.
  std::string NameUnheard(double now);
  std::string FindOutOfStep(const DigestAfter& digest_after) const;
  std::string FindStuck(double now) const;
  std::string NameSlow(double now);
  // Names a rank that delays the others in every step, a little each time.
  std::string NameStraggler(double now);
  // "rank 1 (host b, process 4711), at step 52 in backward, its last collective number 7
  // (AllReduce)", or the name of a tensor instead of number and kind
  std::string Describe(const Peer& peer) const;

  std::vector<std::string> hosts_;
  WatchTimes times_;
  std::vector<Peer> peers_;
  double first_look_ = -1;
  // For NameStraggler().
  bool was_in_steps_ = false;
  double last_look_ = 0;
  double window_ = 0;               // seconds of steps that it has looked at
  double named_straggler_at_ = -1;  // negative if never
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_WATCHDOG_H_
