// warm_up.cc - made-up examples with masked tokens.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/warm_up.h"

#include <algorithm>

#include "dtrain/tasks/pretraining/head.h"
#include "dtrain/tasks/shared/internal/warm_up_steps.h"

namespace dtrain {
namespace {

using internal::FillTexts;
using internal::ShareOf;

// `share` of the planned batch. Masked tokens lie evenly among all.
PretrainingBatch SampleBatch(const MaskedBertBatch& planned, const BertPretrainingOptions& model,
                             double share) {
  PretrainingBatch batch;
  FillTexts(planned.text, model.bert, share, batch);
  const int64_t tokens = batch.sequences.tokens();
  const int64_t masked = std::min(ShareOf(share, static_cast<double>(planned.masked)), tokens);
  for (int64_t i = 0; i < masked; ++i) {
    batch.masked_rows.push_back(static_cast<int32_t>(i * tokens / masked));
    batch.masked_ids.push_back(batch.token_ids[static_cast<size_t>(batch.masked_rows.back())]);
  }
  if (model.next_sentence) {
    batch.next_labels.assign(static_cast<size_t>(batch.size()), 0.0F);
    batch.next_weights.assign(static_cast<size_t>(batch.size()), 1.0F);
  }
  return batch;
}

}  // namespace

std::function<void()> WarmUpSteps(BertPretraining& model, const MaskedBertBatch& batch,
                                  const Device& device, const ContextOptions& options) {
  return internal::WarmUpStepsOf(model, SampleBatch, batch, device, options);
}

}  // namespace dtrain
