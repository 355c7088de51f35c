// kernel_plans.cc - sample batches to measure on, and the way from the configuration to the plans.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/kernel_plans.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/base/random.h"
#include "dtrain/kernels.pb.h"
#include "dtrain/models/seq2seq_transformer.h"
#include "dtrain/nn/embedding.h"
#include "dtrain/ops/cast.h"
#include "dtrain/tasks/classification/head.h"
#include "dtrain/tasks/pretraining/head.h"
#include "dtrain/tasks/question_answering/head.h"

namespace dtrain {
namespace {

// Micro-batches are at most as large as planned and seldom less than this share of it: sizes that
// are warmed up, in eighths.
constexpr int kSmallestEighths = 6;

// So many tokens in `count` sequences of nearly one length, none of them empty.
Sequences EvenSequences(int64_t tokens, int64_t count) {
  std::vector<int32_t> offsets;
  for (int64_t i = 0; i <= count; ++i) {
    offsets.push_back(static_cast<int32_t>(std::max(tokens, count) * i / count));
  }
  return Sequences(std::move(offsets));
}

int64_t ShareOf(double share, double of) { return std::max<int64_t>(1, std::llround(share * of)); }

std::vector<int32_t> DrawIds(int64_t count, int64_t below, RandomStream& random) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(below)));
  return ids;
}

// A batch that is such a share of the planned one.
TranslationBatch SampleBatch(const Seq2SeqBatch& planned, const Seq2SeqOptions& model,
                             double share) {
  RandomStream random({.seed = 1});
  const int64_t pairs =
      ShareOf(share, static_cast<double>(planned.target_tokens) / planned.target_length);
  TranslationBatch batch;
  batch.source = EvenSequences(ShareOf(share, static_cast<double>(planned.source_tokens)), pairs);
  batch.target = EvenSequences(ShareOf(share, static_cast<double>(planned.target_tokens)), pairs);
  batch.source_ids = DrawIds(batch.source.tokens(), model.vocab_size, random);
  batch.decoder_ids = DrawIds(batch.target.tokens(), model.vocab_size, random);
  batch.target_ids = DrawIds(batch.target.tokens(), model.vocab_size, random);
  return batch;
}

void FillTexts(const BertBatch& planned, const BertOptions& model, double share,
               PackedTexts& batch) {
  RandomStream random({.seed = 1});
  const int64_t texts = ShareOf(share, static_cast<double>(planned.texts));
  batch.sequences = EvenSequences(ShareOf(share, static_cast<double>(planned.tokens)), texts);
  const int64_t tokens = batch.sequences.tokens();
  batch.token_ids = DrawIds(tokens, model.vocab_size, random);
  batch.type_ids = DrawIds(tokens, model.type_vocab_size, random);
  batch.position_ids = PositionsOf(batch.sequences);
}

ClassificationBatch SampleBatch(const BertBatch& planned, const BertClassifierOptions& model,
                                double share) {
  ClassificationBatch batch;
  FillTexts(planned, model.bert, share, batch);
  const int64_t texts = batch.sequences.count();
  batch.labels.assign(static_cast<size_t>(texts * model.labels_per_row()), 0.0F);
  batch.weights.assign(static_cast<size_t>(texts), 1.0F);
  return batch;
}

SpanBatch SampleBatch(const BertBatch& planned, const BertOptions& model, double share) {
  SpanBatch batch;
  FillTexts(planned, model, share, batch);
  batch.targets.assign(static_cast<size_t>(2 * batch.sequences.count()), 0);
  return batch;
}

// Masked tokens lie evenly among all.
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

template <typename Model, typename Batch>
std::function<void()> StepsOf(Model& model, const Batch& planned, const Device& device,
                              const ContextOptions& options) {
  return [&model, planned, device, options] {
    Context context(device, options);
    context.set_training(true);
    for (int eighths = kSmallestEighths; eighths <= 8; ++eighths) {
      model.Forward(SampleBatch(planned, model.options(), eighths / 8.0), context);
      model.Backward(context);
    }
    Tensor gradients = model.parameters().gradients();
    Zero(gradients, context.stream());
    context.stream().Synchronize();
  };
}

}  // namespace

GemmPlanOptions GemmPlanOptionsOf(const proto::KernelConfig& config, const std::string& run_dir) {
  GemmPlanOptions options{.path = (config.plan_dir().empty() ? run_dir : config.plan_dir()) +
                                  "/gemm_plans.txt"};
  switch (config.gemm_tuning()) {
    case proto::KernelConfig::off:
      options.tuning = GemmTuning::kOff;
      break;
    case proto::KernelConfig::heuristic:
      options.tuning = GemmTuning::kHeuristic;
      break;
    case proto::KernelConfig::measure:
      options.tuning = GemmTuning::kMeasure;
      break;
  }
  return options;
}

Status PrepareKernels(const proto::KernelConfig& config, const std::string& run_dir,
                      const Device& device, Communicator& comm,
                      const std::function<void()>& warm_up) {
  DT_ASSIGN_OR_RETURN(const PlanReport report,
                      PrepareGemmPlans(GemmPlanOptionsOf(config, run_dir), device, comm, warm_up));
  if (comm.is_root() && report.read + report.measured > 0) {
    LogInfo(absl::StrFormat("plans of matrix products: %d measured before, %d now", report.read,
                            report.measured));
  }
  return OkStatus();
}

std::function<void()> WarmUpSteps(Seq2SeqTransformer& model, const Seq2SeqBatch& batch,
                                  const Device& device, const ContextOptions& options) {
  return StepsOf(model, batch, device, options);
}

std::function<void()> WarmUpSteps(BertClassifier& model, const BertBatch& batch,
                                  const Device& device, const ContextOptions& options) {
  return StepsOf(model, batch, device, options);
}

std::function<void()> WarmUpSteps(BertPretraining& model, const MaskedBertBatch& batch,
                                  const Device& device, const ContextOptions& options) {
  return StepsOf(model, batch, device, options);
}

std::function<void()> WarmUpSteps(BertQuestionAnswering& model, const BertBatch& batch,
                                  const Device& device, const ContextOptions& options) {
  return StepsOf(model, batch, device, options);
}

}  // namespace dtrain
