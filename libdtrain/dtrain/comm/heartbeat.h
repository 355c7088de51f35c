// heartbeat.h - what a rank reports to the others about its work: step, phase, collective, waits.
// SPDX-License-Identifier: Apache-2.0
//
//   HeartbeatOf(comm)->SetStep(step);
//   HeartbeatOf(comm)->SetPhase(Phase::kEvaluation);
//
// Heartbeats (comm/environment.h) carry it to rank 0, so that messages name a late, stopped or dead
// rank with its step and phase. In a training loop of your own both calls are optional. A rank that
// never sets a phase counts as starting. Starting may take long, so such a rank is named if it
// hangs, but the job does not end. Any thread may call any function.
#ifndef DTRAIN_COMM_HEARTBEAT_H_
#define DTRAIN_COMM_HEARTBEAT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain {

// A live process may stay in kStart, kEvaluation, kCheckpoint and kEnd for any time. Environment
// sets kEnd: the rank is done and waits for the other ranks.
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

class Heartbeat {
 public:
  struct State {
    int64_t step = 0;
    Phase phase = Phase::kStart;
    int64_t sequence = 0;       // number of collectives begun
    uint64_t digest = 0;        // of their names and sizes
    std::string collective{};   // the last one begun, or the tensor that a later wait is for
    bool named = false;         // `collective` is a tensor's name
    int64_t moves = 0;          // grows while messages travel
    bool waiting = false;       // in a collective in which nothing moves
    double waited_seconds = 0;  // total time in collectives in which nothing moved
  };
  // The conclusions of the watchdog (internal/watchdog.h) from the heartbeats of all ranks.
  struct Judgement {
    // True if heartbeats of all ranks arrive. Then the watchdog decides when the job has failed;
    // otherwise the length of a wait decides.
    bool watched = false;
    std::string failure{};  // why the job must end, or ""
  };

  void SetStep(int64_t step) { step_ = step; }
  void SetPhase(Phase phase) { phase_ = phase; }

  // For communicators. `name` is a literal. All ranks begin the same collectives with the same
  // bytes.
  void BeginCollective(const char* name, int64_t bytes);
  // A wait for a named tensor (comm/collectives.h) begins. It has no sequence number, because ranks
  // wait for tensors in any order.
  void NameCollective(std::string_view name);
  void CountMove() { moves_.fetch_add(1, std::memory_order_relaxed); }
  void BeginWait() { ++waits_; }
  void EndWait() { --waits_; }
  void AddWait(double seconds) {
    waited_microseconds_.fetch_add(static_cast<int64_t>(seconds * 1e6), std::memory_order_relaxed);
  }
  Judgement judgement() const;

  // For the watchdog.
  State Read() const;
  // The digest after this many collectives, if that was recent enough to be known.
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
  std::array<uint64_t, kDigests> digests_{};  // the one after i collectives is at i % kDigests
  Judgement judgement_;
};

class Communicator;
// The heartbeat of this rank. All communicators of a rank share it.
const std::shared_ptr<Heartbeat>& HeartbeatOf(const Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_COMM_HEARTBEAT_H_
