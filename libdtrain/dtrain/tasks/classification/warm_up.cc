// warm_up.cc - made-up labelled texts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/warm_up.h"

#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/shared/internal/warm_up_steps.h"

namespace dtrain {
namespace {

using internal::FillTexts;

// `share` of the planned batch.
ClassificationBatch SampleBatch(const BertBatch& planned, const BertClassifierOptions& model,
                                double share) {
  ClassificationBatch batch;
  FillTexts(planned, model.bert, share, batch);
  const int64_t texts = batch.sequences.count();
  batch.labels.assign(static_cast<size_t>(texts * model.labels_per_row()), 0.0F);
  batch.weights.assign(static_cast<size_t>(texts), 1.0F);
  return batch;
}

}  // namespace

std::function<void()> WarmUpSteps(BertClassifier& model, const BertBatch& batch,
                                  const Device& device, const ContextOptions& options) {
  return internal::WarmUpStepsOf(model, SampleBatch, batch, device, options);
}

}  // namespace dtrain
