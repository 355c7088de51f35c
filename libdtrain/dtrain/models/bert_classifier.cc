// bert_classifier.cc - encoder, pooler, a small product in float32, and the loss.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/bert_classifier.h"

#include <span>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/reduce.h"

namespace dtrain {
namespace {

Tensor UploadFloats(std::span<const float> values, const Shape& shape, Context& ctx) {
  Tensor tensor = ctx.Empty(shape, DType::kFloat32);
  Upload<float>(values, tensor, ctx.stream());
  return tensor;
}

double SumOf(const Tensor& values, Context& ctx) {
  Tensor total = ctx.Empty({1}, DType::kFloat64);
  Sum(values, total, ctx.stream());
  return Download<double>(total, ctx.stream()).front();
}

BertInputs InputsOf(const ClassificationBatch& batch) {
  return {batch.token_ids, batch.type_ids, batch.position_ids, batch.sequences};
}

}  // namespace

BertClassifier::BertClassifier(const BertClassifierOptions& options)
    : options_(options),
      encoder_(Scope(parameters_, "bert"), options.bert),
      pooler_(Scope(parameters_, "bert.pooler"), options.bert),
      dropout_site_(parameters_.NewSite()),
      weight_(Scope(parameters_, "classifier")
                  .Add("weight", {options.num_labels, options.bert.hidden_size},
                       Initializer::Normal(options.bert.initializer_range))),
      bias_(Scope(parameters_, "classifier")
                .Add("bias", {options.num_labels}, Initializer::Constant(0.0f))) {
  DT_CHECK(options.label_weights.empty() ||
           static_cast<int64_t>(options.label_weights.size()) == options.num_labels)
      << options.label_weights.size() << " label_weights for " << options.num_labels << " labels";
}

void BertClassifier::Allocate(const Device& device, DType compute_type, uint64_t seed) {
  parameters_.Allocate(device, compute_type, seed);
}

Tensor BertClassifier::Encode(const ClassificationBatch& batch, Context& ctx) {
  return encoder_.Forward(InputsOf(batch), ctx);
}

// In float32 whatever the compute type: a few numbers a row that decide everything.
Tensor BertClassifier::Logits(const Tensor& pooled, Context& ctx) {
  Tensor logits = ctx.Empty({pooled.dim(0), options_.num_labels}, DType::kFloat32);
  Gemm(pooled, weight_.value(), {.transpose_b = true}, logits, ctx.stream());
  DropoutResidualForward(logits, bias_.master(), Tensor(), {}, logits, ctx.stream());
  return logits;
}

LossSums BertClassifier::Forward(const ClassificationBatch& batch, float loss_scale, Context& ctx,
                                 ClassificationOutputs* outputs) {
  const int64_t rows = batch.sequences.count();
  if (outputs != nullptr) *outputs = ClassificationOutputs();
  if (rows == 0) return {};
  const Shape shape = {rows, options_.num_labels};
  const Tensor hidden = Encode(batch, ctx);
  const Tensor pooled = pooler_.Forward(hidden, batch.sequences, PooledDropout(ctx), ctx);
  ClassificationLossInputs inputs{
      .logits = Logits(pooled, ctx),
      .targets = UploadFloats(batch.labels, {rows, options_.labels_per_row()}, ctx),
      .weights = UploadFloats(batch.weights, {rows}, ctx)};
  if (!options_.label_weights.empty()) {
    inputs.output_weights = UploadFloats(options_.label_weights, {options_.num_labels}, ctx);
  }
  ClassificationLossOutputs results{.loss = ctx.Empty({rows}, DType::kFloat32),
                                    .unweighted = ctx.Empty({rows}, DType::kFloat32)};
  if (outputs != nullptr) results.probabilities = ctx.Empty(shape, DType::kFloat32);
  if (ctx.training()) results.d_logits = ctx.Empty(shape, DType::kFloat32);
  // A trainer has its scale on the device and wants the sums there.
  const bool for_trainer = ctx.training() && ctx.loss().scale;
  DT_CHECK(!for_trainer || loss_scale == 1.0f) << "the scale of the trainer's loss is its own";
  const Tensor scale = for_trainer ? ctx.loss().scale : UploadFloats({&loss_scale, 1}, {1}, ctx);
  ClassificationLoss(options_.loss, inputs, scale, results, ctx.stream());
  if (ctx.training()) {
    sequences_ = batch.sequences;
    pooled_ = pooled;
    d_logits_ = results.d_logits;
  }
  if (outputs != nullptr) {
    outputs->logits = Download<float>(inputs.logits, ctx.stream());
    outputs->probabilities = Download<float>(results.probabilities, ctx.stream());
    outputs->losses = Download<float>(results.unweighted, ctx.stream());
  }
  if (for_trainer) {
    Tensor loss_sum = ctx.loss().loss_sum;
    Tensor nll_sum = ctx.loss().nll_sum;
    AccumulateSum(results.loss, loss_sum, ctx.stream());
    AccumulateSum(results.unweighted, nll_sum, ctx.stream());
    return {.tokens = rows};
  }
  return {.loss = SumOf(results.loss, ctx), .nll = SumOf(results.unweighted, ctx), .tokens = rows};
}

void BertClassifier::Backward(Context& ctx) {
  if (!d_logits_) {  // an empty micro-batch adds nothing, but its gradients are as ready as any
    FinishGradients();
    return;
  }
  AccumulateColumnSums(d_logits_, bias_.gradient(), ctx.stream());
  bias_.GradientReady();
  Tensor d_logits = std::exchange(d_logits_, Tensor());
  if (ctx.compute_type() != DType::kFloat32) {
    Tensor narrow = ctx.Empty(d_logits.shape());
    Cast(d_logits, narrow, ctx.stream());
    d_logits = narrow;
  }
  Gemm(d_logits, pooled_, {.transpose_a = true, .accumulate = true}, weight_.gradient(),
       ctx.stream());
  weight_.GradientReady();
  Tensor d_pooled = ctx.Empty(pooled_.shape());
  Gemm(d_logits, weight_.value(), {}, d_pooled, ctx.stream());
  pooled_ = Tensor();
  Tensor d_hidden = pooler_.Backward(d_pooled, sequences_, PooledDropout(ctx), ctx);
  d_pooled = Tensor();
  encoder_.Backward(std::move(d_hidden), sequences_, ctx);
}

void BertClassifier::FinishGradients() {
  for (const Parameter* parameter : parameters_.in_backward_order()) parameter->GradientReady();
}

}  // namespace dtrain
