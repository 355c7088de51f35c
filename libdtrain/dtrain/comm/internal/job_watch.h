// job_watch.h - decides from the ranks' heartbeats who is late, silent or out of step.
// SPDX-License-Identifier: Apache-2.0
//
// Rank 0 hears every rank and looks for all of it. The others hear rank 0 alone and look for its
// silence; they learn the rest from rank 0 (heartbeat.h). A rank is never given up for being slow:
// as long as it computes, its heartbeats say so.
#ifndef DTRAIN_COMM_INTERNAL_JOB_WATCH_H_
#define DTRAIN_COMM_INTERNAL_JOB_WATCH_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/pulse.h"

namespace dtrain::internal {

// What a rank says of itself. Plain bytes: it is sent as it lies.
struct Beat {
  int32_t rank = 0;
  int32_t process = 0;
  int64_t count = 0;  // of this rank's beats; a beat that was overtaken is dropped
  int64_t step = 0;
  int64_t sequence = 0;
  uint64_t digest = 0;
  int64_t moves = 0;
  int64_t cpu_milliseconds = 0;  // of the process
  double waited_seconds = 0;     // for other ranks
  Phase phase = Phase::kStart;
  bool waiting = false;
  bool leaving = false;               // the last beat
  bool named = false;                 // `collective` is a tensor's name
  std::array<char, 41> collective{};  // as much of it as there is room for
};

// Of one look.
struct Findings {
  bool complete = false;  // every rank watched has been heard
  std::string note{};     // to be logged once; "": nothing new
  std::string failure{};  // why the job must end
};

// Times in seconds, made of CommunicatorOptions so that with the defaults a silent rank is named
// within 10 s and the job is over within timeout_seconds.
struct WatchTimes {
  explicit WatchTimes(const CommunicatorOptions& options);
  double beat;    // between two beats
  double silent;  // without a beat, then a rank is named
  double slow;    // that others wait for a rank, at once or in many steps, then it is named
  double limit;   // of silence, or without any movement, then the job ends
};

class JobWatch {
 public:
  // After so many collectives, rank 0's own digest (Pulse::DigestAfter).
  using DigestAfter = std::function<std::optional<uint64_t>(int64_t)>;

  // hosts: of every rank. `watched`: those whose beats arrive here.
  JobWatch(std::vector<std::string> hosts, const std::vector<int>& watched,
           const WatchTimes& times);

  // `now`: seconds of a clock that stands still while this process does.
  void Hear(const Beat& beat, double now);
  // Who is silent.
  Findings LookForSilence(double now);
  // That, and who is out of step, keeps the others waiting, or does not move.
  Findings Look(double now, const DigestAfter& digest_after);

 private:
  struct Peer {
    int rank = 0;
    bool heard = false;
    Beat beat;
    double heard_at = 0;
    double moved_at = 0;
    double freed_at = 0;  // when it last began or ended a wait, or went on: not slow before that
    bool named_silent = false;  // or never heard
    double named_slow_at = -1;  // negative: not since others began to wait
    double waited_before = 0;   // at the last look
    double waited_in_window = 0;
  };

  // Once, where a rank's beats have never come.
  std::string NameUnheard(double now);
  std::string FindOutOfStep(const DigestAfter& digest_after) const;
  std::string FindStuck(double now) const;
  std::string NameSlow(double now);
  // Who holds the others up in every step, a little each time.
  std::string NameStraggler(double now);
  // "rank 1 (host b, process 4711), at step 52 in backward, its last collective number 7
  // (AllReduce)", or with the name of a tensor in place of number and kind
  std::string Describe(const Peer& peer) const;

  std::vector<std::string> hosts_;
  WatchTimes times_;
  std::vector<Peer> peers_;
  double first_look_ = -1;
  // Of NameStraggler().
  bool was_in_steps_ = false;
  double last_look_ = 0;
  double window_ = 0;               // seconds of steps looked at
  double named_straggler_at_ = -1;  // negative: never
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_JOB_WATCH_H_
