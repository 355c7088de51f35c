// pulse.h - what a rank is doing now, for those who watch the job.
// SPDX-License-Identifier: Apache-2.0
//
//   comm.pulse().SetStep(step);
//   comm.pulse().SetPhase(Phase::kEvaluation);
//
// Heartbeats (comm/environment.h) carry it to rank 0, so that a late, stopped or dead rank is named
// with its step and phase. A trainer of your own may say both, or nothing; but a rank that never
// sets a phase counts as starting, which may take long: where it hangs, it is named and not given
// up. Any thread may call.
#ifndef DTRAIN_COMM_PULSE_H_
#define DTRAIN_COMM_PULSE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain {

// kStart, kEvaluation, kCheckpoint and kEnd (a rank is done and waits for the others' end; set by
// Environment) may take as long as they take, as long as the process lives.
enum class Phase : uint8_t {
  kStart,
  kData,
  kForward,
  kBackward,
  kExchange,
  kUpdate,
  kEvaluation,
  kCheckpoint,
  kEnd
};
std::string_view Name(Phase phase);

class Pulse {
 public:
  // All that is known of this rank.
  struct State {
    int64_t step = 0;
    Phase phase = Phase::kStart;
    int64_t sequence = 0;       // collectives begun
    uint64_t digest = 0;        // of their names and sizes
    std::string collective{};   // the last of them, or a tensor waited for later
    bool named = false;         // it is a tensor's name
    int64_t moves = 0;          // grows while messages travel
    bool waiting = false;       // in a collective in which nothing moves
    double waited_seconds = 0;  // in collectives in which nothing moved, in all
  };
  // What those who watch say.
  struct Judgement {
    bool watched = false;   // heartbeats of all ranks arrive: they decide, not the length of a wait
    std::string failure{};  // why the job must end; "": it need not
  };

  void SetStep(int64_t step) { step_ = step; }
  void SetPhase(Phase phase) { phase_ = phase; }

  // For communicators. `name` is a literal; all ranks begin the same collectives with the same
  // bytes.
  void BeginCollective(const char* name, int64_t bytes);
  // A wait for a named tensor (comm/collectives.h) begins. It has no number: ranks take them in any
  // order.
  void NameCollective(std::string_view name);
  void CountMove() { moves_.fetch_add(1, std::memory_order_relaxed); }
  void BeginWait() { ++waits_; }
  void EndWait() { --waits_; }
  void AddWait(double seconds) {
    waited_microseconds_.fetch_add(static_cast<int64_t>(seconds * 1e6), std::memory_order_relaxed);
  }
  Judgement judgement() const;

  // For the watch.
  State Read() const;
  // After that many collectives, where that is not too long ago to be known.
  std::optional<uint64_t> DigestAfter(int64_t collectives) const;
  void Judge(const Judgement& judgement);

 private:
  static constexpr size_t kDigests = 4096;

  std::atomic<int64_t> step_{0};
  std::atomic<Phase> phase_{Phase::kStart};
  std::atomic<int64_t> moves_{0};
  std::atomic<int> waits_{0};
  std::atomic<int64_t> waited_microseconds_{0};
  mutable std::mutex mutex_;
  int64_t sequence_ = 0;
  std::string collective_;
  bool named_ = false;
  std::array<uint64_t, kDigests> digests_{};  // at i % kDigests: after i collectives
  Judgement judgement_;
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_PULSE_H_
