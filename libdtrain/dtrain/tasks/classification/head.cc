// head.cc - encoder, pooler, a small product in float32, and the loss.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/head.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/models/internal/head_product.h"
#include "dtrain/nn/first_token.h"
#include "dtrain/ops/dropout_residual.h"
#include "dtrain/ops/sequence_mean.h"

namespace dtrain {

BertClassifier::BertClassifier(const BertClassifierOptions& options)
    : options_(options),
      encoder_(Scope(parameters_, std::string(options.bert.family->encoder)), options.bert),
      pooler_(Scope(parameters_, ""), ClassifierTransformOf(options.bert)),
      dropout_site_(parameters_.NewSite()),
      input_site_(options.bert.family->classifier.drops_input ? parameters_.NewSite() : 0),
      weight_(Scope(parameters_, std::string(options.bert.family->classifier.output))
                  .Add("weight", {options.num_labels, options.bert.hidden_size},
                       Initializer::Normal(options.bert.initializer_range))),
      bias_(Scope(parameters_, std::string(options.bert.family->classifier.output))
                .Add("bias", {options.num_labels}, Initializer::Constant(0.0f))) {
  DT_CHECK(options.label_weights.empty() ||
           static_cast<int64_t>(options.label_weights.size()) == options.num_labels)
      << options.label_weights.size() << " label_weights for " << options.num_labels << " labels";
}

void BertClassifier::Allocate(const Device& device, DType compute_type, uint64_t seed) {
  parameters_.Allocate(device, compute_type, seed);
}

Tensor BertClassifier::Encode(const ClassificationBatch& batch, Context& ctx) {
  const std::vector<int32_t> numbers = batch.sequences.NumberRows();
  const auto lists = ListsOf(batch, numbers);
  return encoder_.Forward(InputsOf(batch, ctx.Upload(lists)), ctx);
}

ClassifierInputs BertClassifier::Upload(const ClassificationBatch& batch, Context& ctx) const {
  const int64_t rows = batch.sequences.count();
  const std::vector<int32_t> row_numbers = batch.sequences.NumberRows();
  const auto [ids, types, positions, offsets, numbers] = ListsOf(batch, row_numbers);
  Sequences one_each = OneTokenEach(rows);
  const std::array<HostList, 10> lists = {ids,
                                          types,
                                          positions,
                                          offsets,
                                          numbers,
                                          one_each.offsets(),
                                          batch.labels,
                                          batch.weights,
                                          batch.sequences.first_numbers(),
                                          options_.label_weights};
  const std::vector<Tensor> on_device = ctx.Upload(lists);
  one_each.set_device_offsets(on_device[5]);
  if (on_device[8].elements() > 0) one_each.set_row_numbers(on_device[8]);
  const BertInputs text = InputsOf(batch, on_device);
  return {.text = text,
          .first = FirstTokenRows(text.sequences, one_each, ctx),
          .targets = on_device[6].Reshape({rows, options_.labels_per_row()}),
          .weights = on_device[7],
          .label_weights = options_.label_weights.empty() ? Tensor() : on_device[9]};
}

LossSums BertClassifier::Forward(const ClassificationBatch& batch, Context& ctx,
                                 ClassificationOutputs* outputs) {
  return Forward(Upload(batch, ctx), ctx, outputs);
}

LossSums BertClassifier::Forward(const ClassifierInputs& inputs, Context& ctx,
                                 ClassificationOutputs* outputs) {
  const int64_t rows = inputs.text.sequences.count();
  if (outputs != nullptr) *outputs = ClassificationOutputs();
  if (rows == 0) return {};
  const Shape shape = {rows, options_.num_labels};
  Tensor first = EncodeTexts(inputs, ctx);
  if (options_.bert.family->classifier.drops_input && ctx.training()) {
    DropoutResidualForward(first, Tensor(), Tensor(), DropoutAt(input_site_, inputs.first, ctx),
                           first, ctx.stream());
  }
  const Tensor pooled = pooler_.Forward(first, PooledDropout(inputs.first, ctx), ctx);
  const ClassificationLossInputs loss_inputs{
      .logits = internal::HeadLogits(pooled, weight_, bias_, ctx),
      .targets = inputs.targets,
      .weights = inputs.weights,
      .output_weights = inputs.label_weights};
  ClassificationLossOutputs results{.loss = ctx.Empty({rows}, DType::kFloat32),
                                    .unweighted = ctx.Empty({rows}, DType::kFloat32)};
  if (outputs != nullptr) results.probabilities = ctx.Empty(shape, DType::kFloat32);
  if (ctx.training()) results.d_logits = ctx.Empty(shape, DType::kFloat32);
  LossAccount account(ctx);
  ClassificationLoss(options_.loss, loss_inputs, account.scale(), results, ctx.stream());
  if (ctx.training()) {
    sequences_ = inputs.text.sequences;
    first_ = inputs.first;
    pooled_ = pooled;
    d_logits_ = results.d_logits;
  }
  if (outputs != nullptr) {
    outputs->logits = Download<float>(loss_inputs.logits, ctx.stream());
    outputs->probabilities = Download<float>(results.probabilities, ctx.stream());
    outputs->losses = Download<float>(results.unweighted, ctx.stream());
  }
  return account.Add(results.loss, results.unweighted, rows);
}

void BertClassifier::Backward(Context& ctx) {
  if (!d_logits_) {  // an empty micro-batch adds nothing, but must report its gradients ready too
    FinishGradients();
    return;
  }
  Tensor d_logits = std::exchange(d_logits_, Tensor());
  Tensor d_pooled = internal::HeadBackward(d_logits, pooled_, weight_, bias_, ctx);
  Tensor d_first = pooler_.Backward(d_pooled, PooledDropout(first_, ctx), ctx);
  d_pooled = Tensor();
  if (options_.bert.family->classifier.drops_input) {
    Tensor none;
    DropoutResidualBackward(d_first, DropoutAt(input_site_, first_, ctx), d_first, none,
                            ctx.stream());
  }
  BackwardTexts(std::move(d_first), ctx);
  sequences_ = Sequences();  // also frees its memory on the device
  first_ = OutputRows();
}

Tensor BertClassifier::EncodeTexts(const ClassifierInputs& inputs, Context& ctx) {
  if (!options_.mean_pooling) return encoder_.Forward(inputs.text, ctx, &inputs.first);
  const Tensor rows = encoder_.Forward(inputs.text, ctx);
  Tensor means = ctx.Empty({inputs.text.sequences.count(), options_.bert.hidden_size});
  SequenceMeanForward(rows, inputs.text.sequences, means, ctx.stream());
  return means;
}

void BertClassifier::BackwardTexts(Tensor d_texts, Context& ctx) {
  if (!options_.mean_pooling) {
    encoder_.Backward(std::move(d_texts), sequences_, ctx, &first_);
    return;
  }
  Tensor d_rows = ctx.Empty({sequences_.tokens(), options_.bert.hidden_size});
  SequenceMeanBackward(d_texts, sequences_, d_rows, ctx.stream());
  d_texts = Tensor();
  encoder_.Backward(std::move(d_rows), sequences_, ctx);
}

void BertClassifier::FinishGradients() {
  for (const Parameter* parameter : parameters_.in_backward_order()) parameter->GradientReady();
}

}  // namespace dtrain
