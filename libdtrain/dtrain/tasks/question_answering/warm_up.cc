// warm_up.cc - made-up windows with answers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/warm_up.h"

#include "dtrain/tasks/question_answering/head.h"
#include "dtrain/tasks/shared/internal/warm_up_steps.h"

namespace dtrain {
namespace {

using internal::FillTexts;

// `share` of the planned batch.
SpanBatch SampleBatch(const BertBatch& planned, const BertOptions& model, double share) {
  SpanBatch batch;
  FillTexts(planned, model, share, batch);
  batch.targets.assign(static_cast<size_t>(2 * batch.sequences.count()), 0);
  return batch;
}

}  // namespace

std::function<void()> WarmUpSteps(BertQuestionAnswering& model, const BertBatch& batch,
                                  const Device& device, const ContextOptions& options) {
  return internal::WarmUpStepsOf(model, SampleBatch, batch, device, options);
}

}  // namespace dtrain
