// head.cc - encoder, dropout, a small product in float32, and the loss.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/head.h"

#include <array>
#include <string>
#include <utility>

#include "dtrain/models/internal/head_product.h"
#include "dtrain/ops/classification_loss.h"
#include "dtrain/ops/dropout_residual.h"

namespace dtrain {

BertTokenClassifier::BertTokenClassifier(const BertTokenClassifierOptions& options)
    : options_(options),
      encoder_(Scope(parameters_, std::string(options.bert.family->encoder)), options.bert),
      transform_(TokenTransformOf(parameters_, options.bert)),
      dropout_site_(parameters_.NewSite()),
      weight_(Scope(parameters_, "classifier")
                  .Add("weight", {options.num_tags, options.bert.hidden_size},
                       Initializer::Normal(options.bert.initializer_range))),
      bias_(Scope(parameters_, "classifier")
                .Add("bias", {options.num_tags}, Initializer::Constant(0.0f))) {}

void BertTokenClassifier::Allocate(const Device& device, DType compute_type, uint64_t seed) {
  parameters_.Allocate(device, compute_type, seed);
}

TaggingInputs BertTokenClassifier::Upload(const TaggingBatch& batch, Context& ctx) const {
  const std::vector<int32_t> row_numbers = batch.sequences.NumberRows();
  const auto [ids, types, positions, offsets, numbers] = ListsOf(batch, row_numbers);
  std::vector<int32_t> word_numbers;
  if (!row_numbers.empty()) {
    for (const int32_t row : batch.word_rows) {
      word_numbers.push_back(row_numbers[static_cast<size_t>(row)]);
    }
  }
  Sequences words(batch.word_offsets);
  const std::array<HostList, 9> lists = {ids,       types,           positions,       offsets,
                                         numbers,   batch.word_rows, words.offsets(), word_numbers,
                                         batch.tags};
  const std::vector<Tensor> on_device = ctx.Upload(lists);
  words.set_device_offsets(on_device[6]);
  if (on_device[7].elements() > 0) words.set_row_numbers(on_device[7]);
  return {.text = InputsOf(batch, on_device),
          .words = {.rows = on_device[5], .sequences = words},
          .tags = on_device[8].Reshape({batch.words(), 1})};
}

LossSums BertTokenClassifier::Forward(const TaggingBatch& batch, Context& ctx,
                                      TaggingOutputs* outputs) {
  return Forward(Upload(batch, ctx), ctx, outputs);
}

LossSums BertTokenClassifier::Forward(const TaggingInputs& inputs, Context& ctx,
                                      TaggingOutputs* outputs) {
  const int64_t words = inputs.words.sequences.tokens();
  if (outputs != nullptr) *outputs = TaggingOutputs();
  if (words == 0) return {};
  Tensor hidden = encoder_.Forward(inputs.text, ctx, &inputs.words);
  if (transform_) hidden = transform_->Forward(hidden, {}, ctx);
  if (ctx.training()) {
    const Tensor before = hidden;
    hidden = ctx.Empty(before.shape());
    DropoutResidualForward(before, Tensor(), Tensor(), WordDropout(inputs.words, ctx), hidden,
                           ctx.stream());
  }
  const Tensor logits = internal::HeadLogits(hidden, weight_, bias_, ctx);
  ClassificationLossOutputs results{.loss = ctx.Empty({words}, DType::kFloat32),
                                    .unweighted = ctx.Empty({words}, DType::kFloat32)};
  if (ctx.training()) results.d_logits = ctx.Empty(logits.shape(), DType::kFloat32);
  LossAccount account(ctx);
  ClassificationLoss(ClassificationLossKind::kSoftmax, {.logits = logits, .targets = inputs.tags},
                     account.scale(), results, ctx.stream());
  if (ctx.training()) {
    sequences_ = inputs.text.sequences;
    words_ = inputs.words;
    hidden_ = hidden;
    d_logits_ = results.d_logits;
  }
  if (outputs != nullptr) {
    outputs->logits = Download<float>(logits, ctx.stream());
    outputs->losses = Download<float>(results.unweighted, ctx.stream());
  }
  return account.Add(results.loss, results.unweighted, words);
}

void BertTokenClassifier::Backward(Context& ctx) {
  if (!d_logits_) {  // an empty micro-batch adds nothing, but its gradients are as ready as any
    for (const Parameter* parameter : parameters_.in_backward_order()) parameter->GradientReady();
    return;
  }
  Tensor d_logits = std::exchange(d_logits_, Tensor());
  Tensor d_hidden = internal::HeadBackward(d_logits, hidden_, weight_, bias_, ctx);
  Tensor no_bias;
  DropoutResidualBackward(d_hidden, WordDropout(words_, ctx), d_hidden, no_bias, ctx.stream());
  if (transform_) d_hidden = transform_->Backward(d_hidden, {}, ctx);
  encoder_.Backward(std::move(d_hidden), sequences_, ctx, &words_);
  sequences_ = Sequences();  // and its memory on the device
  words_ = OutputRows();
}

}  // namespace dtrain
