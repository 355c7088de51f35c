// power_sgd_rounds.h - moves the pieces of a step through the rounds of PowerSGD, in their order.
// SPDX-License-Identifier: Apache-2.0
//
// A piece passes these rounds: the sum of the share (if ranks of a host are one worker), the first
// sum (P and the rest), the second sum (Q), and the gathering of shares. A round of a piece starts
// once its previous round is over, and in the order of the pieces, which is the same on all ranks.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_ROUNDS_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/distributed/internal/factor_layout.h"
#include "dtrain/distributed/internal/matrix_compressor.h"
#include "dtrain/distributed/internal/power_sgd_groups.h"
#include "dtrain/distributed/internal/power_sgd_piece.h"

namespace dtrain::internal {

class PowerSgdRounds {
 public:
  // All of them outlive the rounds. gradients: the flat gradients in the host's memory.
  PowerSgdRounds(const FactorLayout& layout, float* gradients, DType wire_type,
                 MatrixCompressor& compressor, PowerSgdGroups& groups);

  // The gradients of pieces [begin, end) are complete: computes P, if this rank has all of it.
  void Prepare(size_t begin, size_t end);
  // Starts these pieces, once after Prepare().
  void Start(size_t begin, size_t end);
  // Starts all rounds whose previous one is over, then finishes at most one piece.
  void Advance();
  // True if all sums of the pieces before `end` have arrived.
  bool HaveArrived(size_t end) const;
  // Waits for the sums of the pieces before `end`, in the same order on all ranks.
  void Wait(size_t end);
  // Ends the step: writes all sums and waits for gathered shares. Returns false if a sum of any
  // rank is not finite; then errors and factors stay as they were before the step.
  bool Finish();
  void SetStep(int64_t step) { step_ = step; }

 private:
  void StartFirst();
  void StartSecond();
  void FinishPiece();

  MatrixCompressor& compressor_;
  PowerSgdGroups& groups_;
  float* gradients_;
  std::vector<PowerSgdPiece> pieces_;
  int64_t step_ = 0;
  // Pieces of this step that have been started, and that have begun each round.
  size_t started_ = 0, next_first_ = 0, next_second_ = 0, finished_ = 0;
  bool finite_ = true;  // this step's sums so far, the same on all ranks with the same share
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_POWER_SGD_ROUNDS_H_
