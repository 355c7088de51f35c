// seq2seq_costs.h - the costs of the translation Transformer, to choose a recomputation policy.
// SPDX-License-Identifier: Apache-2.0
//
//   const Seq2SeqBatch batch{.source_tokens = 4096, .target_tokens = 4096};
//   int64_t weights = 4 * CountParameters(options).total();  // bytes
//   int64_t peak = PeakActivationBytes(options, batch, {.recompute = Recompute::kCheap});
//   RecomputePlan plan = PlanRecompute(CostsOf(options, batch), {}, /*budget=*/int64_t{8} << 30);
//
// Nothing is computed or allocated. nn/costs.h counts the layers.
#ifndef DTRAIN_MODELS_SEQ2SEQ_COSTS_H_
#define DTRAIN_MODELS_SEQ2SEQ_COSTS_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/costs.h"

namespace dtrain {

ModelParameters CountParameters(const Seq2SeqOptions& options);

// A micro-batch. All sentences are assumed to have the same length.
struct Seq2SeqBatch {
  int64_t source_tokens = 4096;
  int64_t target_tokens = 4096;
  double source_length = 32;  // tokens per sentence, including the end symbol
  double target_length = 32;

  int64_t sentences() const {
    return std::llround(static_cast<double>(target_tokens) / target_length);
  }
};

// Counts products only, not embeddings, norms and activations. Attention counts only the keys that
// a query sees.
ModelFlops CountFlops(const Seq2SeqOptions& options, const Seq2SeqBatch& batch, Recompute recompute,
                      int recompute_every = 2);

// Arena::peak() of Forward() and Backward() while training, or of an evaluation's Forward().
int64_t PeakActivationBytes(const Seq2SeqOptions& options, const Seq2SeqBatch& batch,
                            const ActivationOptions& activations);
// The part of PeakActivationBytes() for the largest slice of logits and its gradient
// (nn/output_loss.h).
int64_t LogitsBytes(const Seq2SeqOptions& options, const Seq2SeqBatch& batch,
                    const ActivationOptions& activations);

// All costs, for planning.
ModelCosts CostsOf(const Seq2SeqOptions& options, const Seq2SeqBatch& batch);

}  // namespace dtrain

#endif  // DTRAIN_MODELS_SEQ2SEQ_COSTS_H_
