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
// docs/benchmarks.md. What cores ranks have is up to the system and to the host of a virtual
// machine, and changes under a running job. So now and again all ranks write some pieces the one
// way and the next ones the other, and each goes on with what was cheaper for it. Pieces are those
// of one kind of exchange: others take other steps.
class CopyChoice {
 public:
  // Of a piece, all ranks' slices together: below, it is not worth a look at the clock.
  static constexpr size_t kLeastBytes = 32 << 10;
  // A trial times so many pieces each way, behind as many that only bring memory into the state
  // that this way leaves it in: at least as many as there are places to write to.
  static constexpr int64_t kTimed = 4;

  // `piece` counts all pieces of kLeastBytes and more, alike on all ranks.
  bool PastCaches(int64_t piece) const;
  // Whether the seconds of this piece are wanted.
  bool Timed(int64_t piece) const;
  // Of one step of a timed piece of so many bytes: without waiting for others.
  void Add(int64_t piece, size_t bytes, double seconds);
  // All steps of the piece are done.
  void Finish(int64_t piece);

 private:
  // Every period begins with a trial; which way comes first takes turns, as what is exchanged may.
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

#endif  // DTRAIN_COMM_INTERNAL_COPY_CHOICE_H_
