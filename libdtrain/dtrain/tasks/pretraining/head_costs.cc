// head_costs.cc - sums over the encoder and the two heads of BertPretraining.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/head_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "dtrain/models/internal/encoder_blocks.h"

namespace dtrain {
namespace {

using Block = ByteMeter::Block;

constexpr int64_t kNextOutputs = 2;

// BertPretraining::Forward and Backward, block by block.
class PretrainingBlocks {
 public:
  PretrainingBlocks(const BertPretrainingOptions& options, const MaskedBertBatch& batch,
                    const ActivationOptions& activations, ByteMeter& meter)
      : options_(options),
        batch_(batch),
        activations_(activations),
        meter_(meter),
        read_(batch.text.texts + batch.masked),
        encoder_(options.bert, batch.text, activations, meter, read_),
        transform_(MaskedWordsTransformOf(options.bert), batch.masked, activations, meter),
        pooler_({.in = options.bert.hidden_size, .out = options.bert.hidden_size}, batch.text.texts,
                activations, meter) {}

  // One block: ids of pieces, types and positions, offsets; rows that are read and their offsets;
  // rows and ids of masked tokens; labels and weights of pairs; and, while training, the numbers of
  // both kinds of rows.
  Block TakeInputs() {
    const int64_t tokens = batch_.text.tokens;
    const int64_t texts = batch_.text.texts;
    const int64_t pairs = options_.next_sentence ? texts : 0;
    const bool numbered = activations_.training;
    const std::array<int64_t, 12> counts = {tokens,
                                            tokens,
                                            tokens,
                                            texts + 1,
                                            numbered ? tokens : 0,
                                            read_,
                                            texts + 1,
                                            numbered ? read_ : 0,
                                            batch_.masked,
                                            batch_.masked,
                                            pairs,
                                            pairs};
    return meter_.Take(Context::UploadedElements(counts), DType::kInt32);
  }

  void Forward() {
    const Block hidden = encoder_.Forward();
    if (options_.next_sentence) GuessNext();
    const Block masked = OfMasked();
    const Block predictions = is_training() ? nullptr : meter_.Take(batch_.masked, DType::kInt32);
    const Block normed = transform_.Forward(masked);
    RunLoss();
  }

  void Backward() {
    Block d_hidden = options_.next_sentence ? BackwardNext() : OfRead();
    {
      const Block d_masked = std::exchange(d_masked_, nullptr);
      const Block dx = transform_.Backward();
    }
    encoder_.Backward(std::move(d_hidden));
  }

 private:
  Block OfRead() { return Take(read_ * options_.bert.hidden_size); }
  Block OfMasked() { return Take(batch_.masked * options_.bert.hidden_size); }
  // Of masked tokens, as wide as the embeddings.
  Block Narrowed() { return Take(batch_.masked * options_.bert.embedding_width()); }
  Block OfTexts() { return Take(batch_.text.texts * options_.bert.hidden_size); }
  Block Take(int64_t elements) { return meter_.Take(elements, activations_.compute_type); }
  Block TakeFloats(int64_t elements) { return meter_.Take(elements, DType::kFloat32); }
  bool is_training() const { return activations_.training; }
  bool is_narrow() const { return activations_.compute_type != DType::kFloat32; }

  // BertNextSentence::Forward, block by block.
  void GuessNext() {
    const int64_t texts = batch_.text.texts;
    const Block scale = TakeFloats(1);
    pooled_ = pooler_.Forward(OfTexts());
    const std::array<Block, 3> of_texts = {TakeFloats(texts * kNextOutputs), TakeFloats(texts),
                                           TakeFloats(texts)};
    d_logits_ = TakeFloats(texts * kNextOutputs);  // or probabilities
    if (!is_training()) pooled_ = d_logits_ = nullptr;
  }

  // BertNextSentence::Backward, block by block.
  Block BackwardNext() {
    Block d_logits = std::exchange(d_logits_, nullptr);
    if (is_narrow()) d_logits = Take(batch_.text.texts * kNextOutputs);
    const Block d_pooled = OfTexts();
    pooled_ = nullptr;
    const Block d_first = pooler_.Backward();
    return OfRead();
  }

  // OutputLoss::Forward, block by block.
  void RunLoss() {
    const int64_t classes = options_.bert.vocab_size;
    const std::array<Block, 3> rows = {TakeFloats(batch_.masked), TakeFloats(batch_.masked),
                                       TakeFloats(1)};
    if (is_training()) d_masked_ = Narrowed();
    const int64_t slice =
        std::min(batch_.masked, OutputLoss::SliceRows(classes, activations_.device));
    const DType dtype = OutputLoss::LogitsType(activations_.compute_type, activations_.device);
    const Block logits = meter_.Take(slice * classes, dtype);
    const Block log_sum_exp = TakeFloats(slice);
    const bool has_narrow = is_training() && dtype != activations_.compute_type;
    const Block narrow = has_narrow ? Take(slice * classes) : nullptr;
  }

  BertPretrainingOptions options_;
  MaskedBertBatch batch_;
  ActivationOptions activations_;
  ByteMeter& meter_;
  int64_t read_;  // number of rows that the last layer computes
  internal::EncoderBlocks encoder_;
  internal::HeadTransformBlocks transform_, pooler_;
  Block pooled_, d_logits_, d_masked_;
};

}  // namespace

ModelParameters CountParameters(const BertPretrainingOptions& options) {
  const int64_t hidden = options.bert.hidden_size;
  ModelParameters parameters = internal::CountEncoder(options.bert);
  parameters.output =
      CountParameters(MaskedWordsTransformOf(options.bert)) + options.bert.vocab_size;
  if (options.next_sentence) parameters.output += (hidden + kNextOutputs) * (hidden + 1);
  return parameters;
}

ModelFlops CountFlops(const BertPretrainingOptions& options, const MaskedBertBatch& batch,
                      Recompute recompute, int recompute_every) {
  const auto hidden = static_cast<double>(options.bert.hidden_size);
  double output = static_cast<double>(batch.masked) *
                  static_cast<double>(options.bert.embedding_width()) *
                  (hidden + static_cast<double>(options.bert.vocab_size));
  if (options.next_sentence) {
    output += static_cast<double>(batch.text.texts) * hidden *
              (hidden + static_cast<double>(kNextOutputs));
  }
  return internal::CountEncoderFlops(options.bert, batch.text,
                                     /*output_rows=*/batch.text.texts + batch.masked, 2.0 * output,
                                     recompute, recompute_every);
}

int64_t PeakActivationBytes(const BertPretrainingOptions& options, const MaskedBertBatch& batch,
                            const ActivationOptions& activations) {
  if (batch.text.texts == 0) return 0;
  ByteMeter meter;
  PretrainingBlocks blocks(options, batch, activations, meter);
  const Block inputs = blocks.TakeInputs();
  blocks.Forward();
  if (activations.training) blocks.Backward();
  return meter.peak();
}

ModelCosts CostsOf(const BertPretrainingOptions& options, const MaskedBertBatch& batch) {
  return internal::CostsOfModel(options, batch);
}

BertHead PretrainingHead(const BertPretrainingOptions& model, const MaskingOptions& masking) {
  const int64_t hidden = model.bert.hidden_size;
  const int64_t width = model.bert.embedding_width();
  const int64_t vocabulary = model.bert.vocab_size;
  BertHead head{.row = "example", .encoder = model.bert, .parameters = CountParameters(model)};
  // The projection multiplies by the word table, whose gradient is complete with the embeddings.
  // Of the tokens only the masked ones go through it.
  head.gradients.push_back(
      {.columns = vocabulary,
       .product = masking.share * static_cast<double>(vocabulary) * static_cast<double>(width)});
  if (model.next_sentence) {
    AddLinear(2, hidden, head.gradients);
    AddLinear(hidden, hidden, head.gradients);
  }
  AddHeadTransform(MaskedWordsTransformOf(model.bert), head.gradients);
  head.costs = [model, masking](const BertBatch& batch) {
    return CostsOf(model, MaskedBatchOf(batch, masking));
  };
  return head;
}

MaskedBertBatch MaskedBatchOf(const BertBatch& text, const MaskingOptions& masking) {
  const int64_t masked = std::llround(static_cast<double>(text.tokens) * masking.share);
  return {.text = text,
          .masked = std::clamp(masked, text.texts, text.texts * masking.max_predictions)};
}

}  // namespace dtrain
