// output_loss_blocks.h - memory of OutputLoss, for the costs of whole models.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_MODELS_INTERNAL_OUTPUT_LOSS_BLOCKS_H_
#define DTRAIN_MODELS_INTERNAL_OUTPUT_LOSS_BLOCKS_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "dtrain/nn/costs.h"
#include "dtrain/nn/output_loss.h"

namespace dtrain::internal {

// Rows of the largest slice of logits.
inline int64_t LogitsRows(int64_t tokens, int64_t classes, const ActivationOptions& activations) {
  return std::min(tokens, OutputLoss::SliceRows(classes, activations.device));
}

// OutputLoss::Forward, block by block, without the gradient that Backward returns.
inline void RunOutputLoss(int64_t tokens, int64_t classes, const ActivationOptions& activations,
                          ByteMeter& meter) {
  using Block = ByteMeter::Block;
  std::array<Block, 2> rows;  // loss, log-likelihood
  for (Block& row : rows) row = meter.Take(tokens, DType::kFloat32);
  const Block scale = meter.Take(1, DType::kFloat32);
  const int64_t slice = LogitsRows(tokens, classes, activations);
  const DType dtype = OutputLoss::LogitsType(activations.compute_type, activations.device);
  const Block logits = meter.Take(slice * classes, dtype);
  const Block log_sum_exp = meter.Take(slice, DType::kFloat32);
  const bool has_narrow = activations.training && dtype != activations.compute_type;
  const Block narrow = has_narrow ? meter.Take(slice * classes, activations.compute_type) : nullptr;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_MODELS_INTERNAL_OUTPUT_LOSS_BLOCKS_H_
