// seq2seq_costs.h - what the translation Transformer costs, and which recomputation fits a budget.
// SPDX-License-Identifier: Apache-2.0
//
//   const Seq2SeqBatch batch{.source_tokens = 4096, .target_tokens = 4096};
//   int64_t weights = 4 * CountParameters(options).total();               // bytes
//   int64_t peak = PeakActivationBytes(options, batch, {.recompute = Recompute::kCheap});
//   RecomputePlan plan = PlanRecompute(CostsOf(options, batch), {}, /*budget=*/int64_t{8} << 30);
//
// Nothing is computed or allocated; layers are counted in nn/costs.h.
#ifndef DTRAIN_MODELS_SEQ2SEQ_COSTS_H_
#define DTRAIN_MODELS_SEQ2SEQ_COSTS_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/costs.h"

namespace dtrain {

ModelParameters CountParameters(const Seq2SeqOptions& options);

// A micro-batch; sentences are taken for equally long.
struct Seq2SeqBatch {
  int64_t source_tokens = 4096;
  int64_t target_tokens = 4096;
  double source_length = 32;  // tokens of a sentence, end included
  double target_length = 32;

  int64_t sentences() const {
    return std::llround(static_cast<double>(target_tokens) / target_length);
  }
};

// Embeddings, norms and activations are not counted. Attention counts the keys a query may see.
ModelFlops CountFlops(const Seq2SeqOptions& options, const Seq2SeqBatch& batch, Recompute recompute,
                      int recompute_every = 2);

// Arena::peak() of Forward() and Backward() while training, or of an evaluation's Forward().
int64_t PeakActivationBytes(const Seq2SeqOptions& options, const Seq2SeqBatch& batch,
                            const ActivationOptions& activations);
// Of it the largest slice of logits with its gradient (nn/output_loss.h).
int64_t LogitsBytes(const Seq2SeqOptions& options, const Seq2SeqBatch& batch,
                    const ActivationOptions& activations);

// All of it, for planning.
ModelCosts CostsOf(const Seq2SeqOptions& options, const Seq2SeqBatch& batch);

}  // namespace dtrain

#endif  // DTRAIN_MODELS_SEQ2SEQ_COSTS_H_
