// bert_costs.cc - sums over the stack, the embeddings and what lies on top of them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/bert_costs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dtrain/models/internal/encoder_blocks.h"

namespace dtrain {
namespace {

using internal::EncoderBlocks;
using Block = ByteMeter::Block;

// What BertClassifier::Upload and BertQuestionAnswering::Upload put into one block: ids of pieces,
// types and positions, offsets, while training numbers of rows, and the lists of their own.
template <size_t n>
Block TakeInputs(const BertBatch& batch, const std::array<int64_t, n>& own, bool training,
                 ByteMeter& meter) {
  std::array<int64_t, 5 + n> counts = {batch.tokens, batch.tokens, batch.tokens, batch.texts + 1,
                                       training ? batch.tokens : 0};
  std::copy(own.begin(), own.end(), counts.begin() + 5);
  return meter.Take(Context::UploadedElements(counts), DType::kInt32);
}

// BertClassifier::Forward and Backward, block by block.
class ClassifierBlocks {
 public:
  ClassifierBlocks(const BertClassifierOptions& options, const BertBatch& batch,
                   const ActivationOptions& activations, ByteMeter& meter)
      : batch_(batch),
        hidden_size_(options.bert.hidden_size),
        outputs_(batch.texts * options.num_labels),
        dtype_(activations.compute_type),
        meter_(meter),
        encoder_(options.bert, batch, activations, meter, /*output_rows=*/batch.texts) {}

  void Forward() {
    const Block first = encoder_.Forward();
    const Block before = OfTexts();
    const Block pooled = OfTexts();
    std::array<Block, 3> outputs;  // logits, and of each text the loss with and without weights
    outputs[0] = Outputs(DType::kFloat32);
    outputs[1] = meter_.Take(batch_.texts, DType::kFloat32);
    outputs[2] = meter_.Take(batch_.texts, DType::kFloat32);
    d_logits_ = Outputs(DType::kFloat32);  // or probabilities
    const Block scale = meter_.Take(1, DType::kFloat32);
    pooler_ = {first, before};
    pooled_ = pooled;
  }

  void Backward() {
    Block d_logits = std::exchange(d_logits_, nullptr);
    if (dtype_ != DType::kFloat32) d_logits = Outputs(dtype_);
    Block d_pooled = OfTexts();
    pooled_ = nullptr;
    Block d_first;
    {
      const Block d_before = OfTexts();
      d_first = OfTexts();
      pooler_ = {};
    }
    d_pooled = nullptr;
    encoder_.Backward(std::move(d_first));
  }

 private:
  Block OfTexts() { return meter_.Take(batch_.texts * hidden_size_, dtype_); }
  Block Outputs(DType dtype) { return meter_.Take(outputs_, dtype); }

  BertBatch batch_;
  int64_t hidden_size_;
  int64_t outputs_;
  DType dtype_;
  ByteMeter& meter_;
  EncoderBlocks encoder_;
  std::array<Block, 2> pooler_;  // its input and its product
  Block pooled_, d_logits_;
};

// BertQuestionAnswering::Forward and Backward.
int64_t PeakOfQuestionAnswering(const BertOptions& options, const BertBatch& batch,
                                const ActivationOptions& activations) {
  if (batch.texts == 0) return 0;
  ByteMeter meter;
  EncoderBlocks encoder(options, batch, activations, meter);
  const Block inputs =
      TakeInputs(batch, std::array<int64_t, 1>{2 * batch.texts}, activations.training, meter);
  Block hidden = encoder.Forward();
  Block d_logits = meter.Take(2 * batch.tokens, DType::kFloat32);
  {
    const Block loss = meter.Take(2 * batch.texts, DType::kFloat32);
    const Block scale = meter.Take(1, DType::kFloat32);
  }
  if (!activations.training) return meter.peak();
  if (activations.compute_type != DType::kFloat32) {
    d_logits = meter.Take(2 * batch.tokens, activations.compute_type);
  }
  Block d_hidden = encoder.OfTokens();
  hidden = nullptr;
  encoder.Backward(std::move(d_hidden));
  return meter.peak();
}

}  // namespace

namespace internal {

ModelParameters CountEncoder(const BertOptions& options) {
  const LayerParameters layer = CountParameters(LayerOptionsOf(options));
  const int64_t hidden = options.hidden_size;
  return {
      .embeddings = (options.vocab_size + options.max_positions + options.type_vocab_size) * hidden,
      .attention = options.num_layers * layer.attention,
      .feed_forward = options.num_layers * layer.feed_forward,
      .layer_norm = options.num_layers * layer.layer_norm + 2 * hidden};
}

ModelFlops CountEncoderFlops(const BertOptions& options, const BertBatch& batch,
                             int64_t output_rows, double output_flops, Recompute recompute,
                             int recompute_every) {
  const TransformerStackOptions stack = StackOf(options);
  const auto tokens = static_cast<double>(batch.tokens);
  const auto texts = static_cast<double>(batch.texts);
  const double layer =
      ForwardFlops(stack.layer, {.tokens = tokens, .pairs = tokens * tokens / texts});
  const auto rows = static_cast<double>(output_rows);
  const double last =
      output_rows > 0
          ? ForwardFlops(stack.layer,
                         {.tokens = tokens, .output_rows = rows, .pairs = rows * tokens / texts})
          : layer;
  const int recomputed = RecomputedLayers(stack, recompute, recompute_every);
  ModelFlops flops;
  flops.forward = (stack.num_layers - 1) * layer + last + output_flops;
  flops.backward = 2.0 * flops.forward;
  flops.recomputed = recomputed * layer;
  if (recomputed == stack.num_layers) flops.recomputed += last - layer;
  return flops;
}

}  // namespace internal

ModelParameters CountParameters(const BertClassifierOptions& options) {
  const int64_t hidden = options.bert.hidden_size;
  ModelParameters parameters = internal::CountEncoder(options.bert);
  parameters.output = hidden * hidden + hidden + options.num_labels * (hidden + 1);
  return parameters;
}

ModelParameters CountQuestionAnswering(const BertOptions& options) {
  ModelParameters parameters = internal::CountEncoder(options);
  parameters.output = 2 * (options.hidden_size + 1);
  return parameters;
}

ModelFlops CountFlops(const BertClassifierOptions& options, const BertBatch& batch,
                      Recompute recompute, int recompute_every) {
  const auto hidden = static_cast<double>(options.bert.hidden_size);
  const double output = 2.0 * static_cast<double>(batch.texts) * hidden *
                        (hidden + static_cast<double>(options.num_labels));
  return internal::CountEncoderFlops(options.bert, batch, /*output_rows=*/batch.texts, output,
                                     recompute, recompute_every);
}

int64_t PeakActivationBytes(const BertClassifierOptions& options, const BertBatch& batch,
                            const ActivationOptions& activations) {
  if (batch.texts == 0) return 0;
  ByteMeter meter;
  ClassifierBlocks blocks(options, batch, activations, meter);
  // Offsets of texts of one token, targets, weights of texts, numbers of first rows, weights of
  // labels.
  const std::array<int64_t, 5> own = {batch.texts + 1, batch.texts * options.labels_per_row(),
                                      batch.texts, activations.training ? batch.texts : 0,
                                      static_cast<int64_t>(options.label_weights.size())};
  const Block inputs = TakeInputs(batch, own, activations.training, meter);
  blocks.Forward();
  if (activations.training) blocks.Backward();
  return meter.peak();
}

ModelCosts CostsOf(const BertClassifierOptions& options, const BertBatch& batch) {
  return internal::CostsOfModel(options, batch);
}

ModelCosts CostsOfQuestionAnswering(const BertOptions& options, const BertBatch& batch) {
  return {.parameters = CountQuestionAnswering(options).total(),
          .deepest = options.num_layers,
          .peak_bytes =
              [options, batch](const ActivationOptions& activations) {
                return PeakOfQuestionAnswering(options, batch, activations);
              },
          .flops =
              [options, batch](Recompute recompute, int recompute_every) {
                const double output = 4.0 * static_cast<double>(batch.tokens) *
                                      static_cast<double>(options.hidden_size);
                return internal::CountEncoderFlops(options, batch, /*output_rows=*/0, output,
                                                   recompute, recompute_every);
              }};
}

}  // namespace dtrain
