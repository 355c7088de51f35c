// warm_up.cc - made-up windows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/warm_up.h"

#include "dtrain/models/gpt.h"
#include "dtrain/tasks/shared/internal/warm_up_steps.h"

namespace dtrain {
namespace {

using internal::DrawIds;
using internal::EvenSequences;
using internal::ShareOf;

// `share` of the planned batch.
GptBatch SampleBatch(const BertBatch& planned, const GptOptions& model, double share) {
  RandomStream random({.seed = 1});
  GptBatch batch;
  batch.sequences = EvenSequences(ShareOf(share, static_cast<double>(planned.tokens)),
                                  ShareOf(share, static_cast<double>(planned.texts)));
  batch.input_ids = DrawIds(batch.sequences.tokens(), model.vocab_size, random);
  batch.target_ids = DrawIds(batch.sequences.tokens(), model.vocab_size, random);
  return batch;
}

}  // namespace

std::function<void()> WarmUpSteps(Gpt& model, const BertBatch& batch, const Device& device,
                                  const ContextOptions& options) {
  return internal::WarmUpStepsOf(model, SampleBatch, batch, device, options);
}

}  // namespace dtrain
