// warm_up.cc - made-up sentences in which every piece is a word.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/warm_up.h"

#include "dtrain/tasks/shared/internal/warm_up_steps.h"
#include "dtrain/tasks/token_classification/head.h"

namespace dtrain {
namespace {

// `share` of the planned batch.
TaggingBatch SampleBatch(const BertBatch& planned, const BertTokenClassifierOptions& model,
                         double share) {
  TaggingBatch batch;
  internal::FillTexts(planned, model.bert, share, batch);
  for (int64_t i = 0; i < batch.sequences.tokens(); ++i) {
    batch.word_rows.push_back(static_cast<int32_t>(i));
  }
  batch.word_offsets = batch.sequences.offsets();
  batch.tags.assign(batch.word_rows.size(), 0.0F);
  return batch;
}

}  // namespace

std::function<void()> WarmUpSteps(BertTokenClassifier& model, const BertBatch& batch,
                                  const Device& device, const ContextOptions& options) {
  return internal::WarmUpStepsOf(model, SampleBatch, batch, device, options);
}

}  // namespace dtrain
