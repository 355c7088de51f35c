// warm_up_steps.h - training steps on made-up batches, which kernels are measured on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_WARM_UP_STEPS_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_WARM_UP_STEPS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/data/packed_texts.h"
#include "dtrain/models/bert_costs.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/context.h"
#include "dtrain/ops/cast.h"

namespace dtrain::internal {

// Micro-batches are at most as large as planned, and seldom smaller than this share of it. The
// sizes that are warmed up are counted in eighths.
inline constexpr int kSmallestEighths = 6;

// `tokens` tokens in `count` sequences of nearly one length, none of them empty.
Sequences EvenSequences(int64_t tokens, int64_t count);
// share * whole, rounded, and at least 1.
int64_t ShareOf(double share, double whole);
// Numbers from 0 to below - 1.
std::vector<int32_t> DrawIds(int64_t count, int64_t below, RandomStream& random);
// Fills `batch` with made-up texts, `share` of the planned ones.
void FillTexts(const BertBatch& planned, const BertOptions& model, double share,
               PackedTexts& batch);

// Steps with the batches `sample(planned, model.options(), share)`. Gradients are zero afterwards.
// The model outlives the result, and nobody listens to its parameters yet.
template <typename Model, typename Planned, typename Sample>
std::function<void()> WarmUpStepsOf(Model& model, const Sample& sample, const Planned& planned,
                                    const Device& device, const ContextOptions& options) {
  return [&model, sample, planned, device, options] {
    Context context(device, options);
    context.set_training(true);
    for (int eighths = kSmallestEighths; eighths <= 8; ++eighths) {
      // As micro-batches: the first one's products overwrite gradients, and the second's add.
      model.parameters().BeginGradients(context.stream());
      for (int part = 0; part < 2; ++part) {
        model.Forward(sample(planned, model.options(), eighths / 8.0), context);
        model.Backward(context);
      }
    }
    Tensor gradients = model.parameters().gradients();
    Zero(gradients, context.stream());
    context.stream().Synchronize();
  };
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_WARM_UP_STEPS_H_
