// head.cc - encoder, two scores per token in float32, and the loss.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/head.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/models/internal/head_product.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/span_loss.h"

namespace dtrain {
namespace {

constexpr int64_t kSides = 2;  // start and end

}  // namespace

BertQuestionAnswering::BertQuestionAnswering(const BertOptions& options)
    : options_(options),
      encoder_(Scope(parameters_, std::string(options.family->encoder)), options),
      transform_(TokenTransformOf(parameters_, options)),
      weight_(Scope(parameters_, std::string(options.family->question_scores))
                  .Add("weight", {kSides, options.hidden_size},
                       Initializer::Normal(options.initializer_range))),
      bias_(Scope(parameters_, std::string(options.family->question_scores))
                .Add("bias", {kSides}, Initializer::Constant(0.0f))) {}

void BertQuestionAnswering::Allocate(const Device& device, DType compute_type, uint64_t seed) {
  parameters_.Allocate(device, compute_type, seed);
}

SpanInputs BertQuestionAnswering::Upload(const SpanBatch& batch, Context& ctx) const {
  const std::vector<int32_t> row_numbers = batch.sequences.NumberRows();
  const auto [ids, types, positions, offsets, numbers] = ListsOf(batch, row_numbers);
  const std::array<HostList, 6> lists = {ids, types, positions, offsets, numbers, batch.targets};
  const std::vector<Tensor> on_device = ctx.Upload(lists);
  return {.text = InputsOf(batch, on_device),
          .targets = on_device[5].Reshape({kSides, batch.sequences.count()})};
}

LossSums BertQuestionAnswering::Forward(const SpanBatch& batch, Context& ctx, SpanScores* scores) {
  return Forward(Upload(batch, ctx), ctx, scores);
}

// The two scores per token are always float32, because everything depends on them.
LossSums BertQuestionAnswering::Forward(const SpanInputs& inputs, Context& ctx,
                                        SpanScores* scores) {
  const Sequences& sequences = inputs.text.sequences;
  if (scores != nullptr) *scores = SpanScores();
  if (sequences.count() == 0) return {};
  Tensor hidden = encoder_.Forward(inputs.text, ctx);
  if (transform_) hidden = transform_->Forward(hidden, {}, ctx);
  Tensor logits = ctx.Empty({kSides, sequences.tokens()}, DType::kFloat32);
  Gemm(weight_.value(), hidden, {.transpose_b = true}, logits, ctx.stream());
  SpanLossOutputs results{.loss = ctx.Empty({kSides, sequences.count()}, DType::kFloat32)};
  // Normally the gradient overwrites the scores. If the caller wants scores while training, the
  // gradient gets memory of its own.
  const bool apart = ctx.training() && scores != nullptr;
  if (ctx.training()) {
    results.d_logits = apart ? ctx.Empty(logits.shape(), DType::kFloat32) : logits;
  }
  LossAccount account(ctx);
  SpanLoss(logits, inputs.targets, sequences, account.scale(), results, ctx.stream());
  if (scores != nullptr) *scores = ScoresOf(logits, results.loss, ctx);
  if (ctx.training()) {
    sequences_ = sequences;
    hidden_ = hidden;
    d_logits_ = results.d_logits;
  }
  return account.Add(results.loss, results.loss, sequences.count());
}

SpanScores BertQuestionAnswering::ScoresOf(const Tensor& logits, const Tensor& losses,
                                           Context& ctx) const {
  const std::vector<float> both = Download<float>(logits, ctx.stream());
  const std::vector<float> bias = Download<float>(bias_.master(), ctx.stream());
  const auto middle = both.begin() + static_cast<ptrdiff_t>(both.size() / kSides);
  SpanScores scores{.start = {both.begin(), middle}, .end = {middle, both.end()}, .losses = {}};
  for (float& score : scores.start) score += bias[0];
  for (float& score : scores.end) score += bias[1];
  const std::vector<float> of_sides = Download<float>(losses, ctx.stream());
  const size_t rows = of_sides.size() / kSides;
  for (size_t i = 0; i < rows; ++i) scores.losses.push_back(of_sides[i] + of_sides[rows + i]);
  return scores;
}

void BertQuestionAnswering::Backward(Context& ctx) {
  if (!d_logits_) {  // an empty micro-batch adds nothing, but must report its gradients ready too
    for (const Parameter* parameter : parameters_.in_backward_order()) parameter->GradientReady();
    return;
  }
  bias_.GradientReady();  // softmax cancels a value that all tokens share, so the gradient is 0
  Tensor d_logits = std::exchange(d_logits_, Tensor());
  internal::ToComputeType(d_logits, ctx);
  Gemm(d_logits, hidden_, {.accumulate = true}, weight_.gradient(), ctx.stream());
  weight_.GradientReady();
  Tensor d_hidden = ctx.Empty(hidden_.shape());
  Gemm(d_logits, weight_.value(), {.transpose_a = true}, d_hidden, ctx.stream());
  hidden_ = Tensor();
  if (transform_) d_hidden = transform_->Backward(d_hidden, {}, ctx);
  encoder_.Backward(std::move(d_hidden), sequences_, ctx);
  sequences_ = Sequences();  // also frees its memory on the device
}

}  // namespace dtrain
