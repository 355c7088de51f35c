// copy_choice.h - whether ranks write what others read through the caches or past them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COPY_CHOICE_H_
#define DTRAIN_COMM_INTERNAL_COPY_CHOICE_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrain::internal {

// For pieces that each rank writes into memory of its own and reads in the others', over and over
// in the same few places. Through the caches is the faster way for cores that share one. Where they
// share none, a writer first has to take every line back from the cache of the core that read it:
// on a Zen 3 (cores in groups of eight at most share a cache) 4.5 GB/s, and 20 GB/s past the
// caches, where reading is no slower. What cores ranks have, and of what group, is up to the system
// and to the host of a virtual machine, and changes under a running job. So now and again all ranks
// try both ways on the same pieces, and each goes on with what was cheaper for it.
class CopyChoice {
 public:
  // Below this much per rank the way makes no difference worth a look at the clock.
  static constexpr size_t kLeastBytes = 16 << 10;

  // `piece` counts all pieces of kLeastBytes and more, alike on all ranks.
  bool PastCaches(int64_t piece) const;
  // Whether the seconds of this piece are wanted.
  bool Timed(int64_t piece) const;
  // Of one step of a timed piece, whose rank's share has so many bytes: without waiting for others.
  void Add(int64_t piece, size_t bytes, double seconds);
  // All steps of the piece are done.
  void Finish(int64_t piece);

 private:
  // Every period begins with a trial: pieces through the caches, then pieces past them. The first
  // half of each finds memory as the other way left it and is not timed.
  static constexpr int64_t kTimed = 4;
  static constexpr int64_t kTrial = 2 * kTimed;
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

#endif  // DTRAIN_COMM_INTERNAL_COPY_CHOICE_H_
