// head.cc - gathers masked rows for one head and first rows for the other.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/head.h"

#include <array>
#include <string>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/models/internal/head_product.h"
#include "dtrain/nn/first_token.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/classification_loss.h"

namespace dtrain {
namespace {

constexpr int64_t kNextClasses = 2;  // is next, is random

// The rows of a batch that the heads read, in ascending order: each text's first row and the masked
// rows.
struct ReadRows {
  explicit ReadRows(const PretrainingBatch& batch) {
    const Sequences& texts = batch.sequences;
    size_t next = 0;
    std::vector<int32_t> offsets = {0};
    for (int64_t i = 0; i < texts.count(); ++i) {
      const int32_t first = texts.offsets()[static_cast<size_t>(i)];
      const int32_t end = texts.offsets()[static_cast<size_t>(i) + 1];
      rows.push_back(first);
      for (; next < batch.masked_rows.size() && batch.masked_rows[next] < end; ++next) {
        if (batch.masked_rows[next] != first) rows.push_back(batch.masked_rows[next]);
        masked.push_back(static_cast<int32_t>(rows.size()) - 1);
      }
      offsets.push_back(static_cast<int32_t>(rows.size()));
    }
    DT_CHECK_EQ(next, batch.masked_rows.size())
        << "masked_rows must be ascending and within the batch";
    sequences = Sequences(std::move(offsets));
  }

  std::vector<int32_t> rows;
  std::vector<int32_t> masked;  // positions of the masked rows in `rows`
  Sequences sequences;          // the division of `rows` into texts
};

}  // namespace

BertNextSentence::BertNextSentence(const Scope& encoder, const Scope& heads,
                                   const BertOptions& options)
    : pooler_(encoder, {.dense = "pooler.dense",
                        .in = options.hidden_size,
                        .out = options.hidden_size,
                        .initializer_range = options.initializer_range}),
      weight_((heads / "seq_relationship")
                  .Add("weight", {kNextClasses, options.hidden_size},
                       Initializer::Normal(options.initializer_range))),
      bias_((heads / "seq_relationship").Add("bias", {kNextClasses}, Initializer::Constant(0.0f))) {
}

LossSums BertNextSentence::Forward(const Tensor& hidden, const PretrainingInputs& inputs,
                                   LossAccount& account, Context& ctx,
                                   PretrainingOutputs* outputs) {
  const int64_t rows = inputs.text.sequences.count();
  const Shape shape = {rows, kNextClasses};
  const Tensor pooled = pooler_.Forward(FirstToken(hidden, inputs.read.sequences, ctx), {}, ctx);
  const Tensor logits = internal::HeadLogits(pooled, weight_, bias_, ctx);
  ClassificationLossOutputs results{.loss = ctx.Empty({rows}, DType::kFloat32),
                                    .unweighted = ctx.Empty({rows}, DType::kFloat32)};
  if (outputs != nullptr) results.probabilities = ctx.Empty(shape, DType::kFloat32);
  if (ctx.training()) results.d_logits = ctx.Empty(shape, DType::kFloat32);
  ClassificationLoss(
      ClassificationLossKind::kSoftmax,
      {.logits = logits, .targets = inputs.next_labels, .weights = inputs.next_weights},
      account.scale(), results, ctx.stream());
  if (outputs != nullptr) {
    outputs->next_probabilities = Download<float>(results.probabilities, ctx.stream());
    outputs->next_losses = Download<float>(results.unweighted, ctx.stream());
  }
  if (ctx.training()) {
    pooled_ = pooled;
    d_logits_ = results.d_logits;
  }
  return account.Add(results.loss, Tensor(), /*tokens=*/0);
}

Tensor BertNextSentence::Backward(const Sequences& sequences, Context& ctx) {
  DT_CHECK(d_logits_) << "Backward() without Forward()";
  Tensor d_logits = std::exchange(d_logits_, Tensor());
  const Tensor d_pooled = internal::HeadBackward(d_logits, pooled_, weight_, bias_, ctx);
  return FirstTokenBackward(pooler_.Backward(d_pooled, {}, ctx), sequences, ctx);
}

BertPretraining::BertPretraining(const BertPretrainingOptions& options)
    : options_(options),
      encoder_(Scope(parameters_, std::string(options.bert.family->encoder)), options.bert),
      transform_(Scope(parameters_, ""), MaskedWordsTransformOf(options.bert)),
      output_bias_(Scope(parameters_, "")
                       .Add(options.bert.family->masked_words.bias, {options.bert.vocab_size},
                            Initializer::Constant(0.0f))),
      output_(encoder_.word_embeddings(), OutputLossOptions(), &output_bias_) {
  if (!options.next_sentence) return;
  DT_CHECK(options.bert.family->has_next_sentence)
      << options.bert.family->title << " guesses no next sentences";
  next_sentence_ = std::make_unique<BertNextSentence>(Scope(parameters_, "bert"),
                                                      Scope(parameters_, "cls"), options.bert);
}

void BertPretraining::Allocate(const Device& device, DType compute_type, uint64_t seed) {
  parameters_.Allocate(device, compute_type, seed);
}

PretrainingInputs BertPretraining::Upload(const PretrainingBatch& batch, Context& ctx) const {
  const int64_t rows = batch.size();
  DT_CHECK_EQ(static_cast<int64_t>(batch.next_labels.size()), options_.next_sentence ? rows : 0)
      << "next_labels";
  const std::vector<int32_t> row_numbers = batch.sequences.NumberRows();
  const auto [ids, types, positions, offsets, numbers] = ListsOf(batch, row_numbers);
  ReadRows read(batch);
  std::vector<int32_t> read_numbers;
  if (!row_numbers.empty()) {
    for (const int32_t row : read.rows) {
      read_numbers.push_back(row_numbers[static_cast<size_t>(row)]);
    }
  }
  const std::array<HostList, 12> lists = {ids,
                                          types,
                                          positions,
                                          offsets,
                                          numbers,
                                          read.rows,
                                          read.sequences.offsets(),
                                          read_numbers,
                                          read.masked,
                                          batch.masked_ids,
                                          batch.next_labels,
                                          batch.next_weights};
  const std::vector<Tensor> on_device = ctx.Upload(lists);
  read.sequences.set_device_offsets(on_device[6]);
  if (on_device[7].elements() > 0) read.sequences.set_row_numbers(on_device[7]);
  PretrainingInputs inputs{.text = InputsOf(batch, on_device),
                           .read = {.rows = on_device[5], .sequences = read.sequences},
                           .masked_rows = on_device[8],
                           .masked_ids = on_device[9]};
  if (options_.next_sentence) {
    inputs.next_labels = on_device[10].Reshape({rows, 1});
    inputs.next_weights = on_device[11];
  }
  return inputs;
}

LossSums BertPretraining::Forward(const PretrainingBatch& batch, Context& ctx,
                                  PretrainingOutputs* outputs) {
  return Forward(Upload(batch, ctx), ctx, outputs);
}

LossSums BertPretraining::Forward(const PretrainingInputs& inputs, Context& ctx,
                                  PretrainingOutputs* outputs) {
  if (outputs != nullptr) *outputs = PretrainingOutputs();
  if (inputs.text.sequences.count() == 0) return {};
  const Tensor hidden = encoder_.Forward(inputs.text, ctx, &inputs.read);
  LossSums sums;
  if (next_sentence_) {
    LossAccount account(ctx);
    sums += next_sentence_->Forward(hidden, inputs, account, ctx, outputs);
  }
  Tensor masked = ctx.Empty({inputs.masked_rows.dim(0), options_.bert.hidden_size});
  GatherRows(hidden, inputs.masked_rows, masked, ctx.stream());
  Tensor predictions;
  if (outputs != nullptr) predictions = ctx.Empty({masked.dim(0)}, DType::kInt32);
  sums += output_.Forward(transform_.Forward(masked, {}, ctx), inputs.masked_ids, predictions, ctx);
  if (outputs != nullptr) outputs->predictions = Download<int32_t>(predictions, ctx.stream());
  if (ctx.training()) {
    sequences_ = inputs.text.sequences;
    read_ = inputs.read;
    masked_rows_ = inputs.masked_rows;
  }
  return sums;
}

void BertPretraining::Backward(Context& ctx) {
  if (!masked_rows_) {  // an empty micro-batch adds nothing, but must report its gradients ready
                        // too
    for (const Parameter* parameter : parameters_.in_backward_order()) parameter->GradientReady();
    return;
  }
  Tensor d_hidden;
  if (next_sentence_) {
    d_hidden = next_sentence_->Backward(read_.sequences, ctx);
  } else {
    d_hidden = ctx.Empty({read_.sequences.tokens(), options_.bert.hidden_size});
    Zero(d_hidden, ctx.stream());
  }
  output_bias_.GradientReady();  // forward has computed it, and the projection's part of the
                                 // gradient of the word embeddings
  Tensor d_masked = transform_.Backward(output_.Backward(), {}, ctx);
  ScatterAddRows(d_masked, std::exchange(masked_rows_, Tensor()), d_hidden, ctx.stream());
  d_masked = Tensor();
  encoder_.Backward(std::move(d_hidden), sequences_, ctx, &read_);
  sequences_ = Sequences();  // also frees its memory on the device
  read_ = OutputRows();
}

}  // namespace dtrain
