// copy_policy.h - chooses whether data for other ranks are written through or past the caches.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COPY_POLICY_H_
#define DTRAIN_COMM_INTERNAL_COPY_POLICY_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrain::internal {

// Each rank writes pieces into its own memory, and other ranks read them there, always in the same
// few places. Writing through the caches is faster for cores that share one. If they share none, a
// writer must first take every line back from the cache of the core that read it
// (docs/dev/records/zen3.md). The operating system and the host of a virtual machine decide which
// cores the ranks have, and they change it while a job runs. So from time to time all ranks write
// some pieces one way and the next ones the other way. Each rank then keeps the way that was
// cheaper for it. All pieces are those of one kind of exchange, because other kinds take other
// steps.
class CopyPolicy {
 public:
  // The slices of all ranks together. Reading the clock does not pay for smaller pieces.
  static constexpr size_t kLeastBytes = 32 << 10;
  // A trial times this many pieces each way. As many untimed ones come first: they bring the memory
  // into the state that this way leaves it in. At least the number of places to write to.
  static constexpr int64_t kTimed = 4;

  // `piece` counts all pieces of at least kLeastBytes, in the same way on all ranks.
  bool PastCaches(int64_t piece) const;
  // True if this piece must be timed.
  bool Timed(int64_t piece) const;
  // One step of a timed piece of `bytes` bytes took this long, without waiting for other ranks.
  void Add(int64_t piece, size_t bytes, double seconds);
  // All steps of the piece are done.
  void Finish(int64_t piece);

 private:
  // Every period begins with a trial. The ways take turns in being first, because exchanges may
  // repeat with the same period.
  static constexpr int64_t kTrial = 2 * kTimed;  // pieces each way
  static constexpr int64_t kPeriod = 128;
  struct Cost {
    double seconds = 0;
    size_t bytes = 0;
  };
  using Costs = std::array<Cost, kTimed>;

  Costs through_{};
  Costs past_{};
  bool past_caches_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COPY_POLICY_H_
