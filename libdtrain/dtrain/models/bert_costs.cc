// bert_costs.cc - sums over the stack, the embeddings, the pooler and the classifier.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/bert_costs.h"

#include <array>
#include <utility>

namespace dtrain {
namespace {

using Block = ByteMeter::Block;

TransformerStackOptions StackOf(const BertOptions& options) {
  return {.layer = LayerOptionsOf(options), .num_layers = options.num_layers};
}

// BertClassifier::Upload: ids of pieces, types and positions, offsets, targets, weights of texts
// and of labels, in one block.
Block TakeInputs(const BertClassifierOptions& options, const BertBatch& batch, ByteMeter& meter) {
  const std::array<int64_t, 7> counts = {batch.tokens,
                                         batch.tokens,
                                         batch.tokens,
                                         batch.texts + 1,
                                         batch.texts * options.labels_per_row(),
                                         batch.texts,
                                         static_cast<int64_t>(options.label_weights.size())};
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
        layers_(StackOf(options.bert), batch.tokens, /*memory_tokens=*/0, activations, meter) {}

  void Forward() {
    const Block hidden = layers_.Forward(Embed());
    const Block first = OfTexts();
    const Block before = OfTexts();
    const Block pooled = OfTexts();
    std::array<Block, 3> outputs;  // logits, and of each text the loss with and without weights
    outputs[0] = Outputs(DType::kFloat32);
    outputs[1] = meter_.Take(batch_.texts, DType::kFloat32);
    outputs[2] = meter_.Take(batch_.texts, DType::kFloat32);
    d_logits_ = Outputs(DType::kFloat32);
    const Block scale = meter_.Take(1, DType::kFloat32);
    pooler_ = {first, before};
    pooled_ = pooled;
  }

  void Backward() {
    Block d_logits = std::exchange(d_logits_, nullptr);
    if (dtype_ != DType::kFloat32) d_logits = Outputs(dtype_);
    Block d_pooled = OfTexts();
    pooled_ = nullptr;
    Block d_hidden;
    {
      const Block d_before = OfTexts();
      const Block d_first = OfTexts();
      pooler_ = {};
      d_hidden = OfTokens();
    }
    d_pooled = nullptr;
    d_hidden = layers_.Backward(std::move(d_hidden));
    const Block d_embeddings = OfTokens();
    norm_ = {};
  }

 private:
  Block OfTokens() { return meter_.Take(batch_.tokens * hidden_size_, dtype_); }
  Block OfTexts() { return meter_.Take(batch_.texts * hidden_size_, dtype_); }
  Block Outputs(DType dtype) { return meter_.Take(outputs_, dtype); }

  // BertEmbeddings::Forward.
  Block Embed() {
    Block x = OfTokens();
    const Block type_rows = OfTokens();
    Block y = OfTokens();
    norm_ = {meter_.Take(batch_.tokens, DType::kFloat32),
             meter_.Take(batch_.tokens, DType::kFloat32), std::move(x)};
    return y;
  }

  BertBatch batch_;
  int64_t hidden_size_;
  int64_t outputs_;
  DType dtype_;
  ByteMeter& meter_;
  StackBlocks layers_;
  std::array<Block, 3> norm_;    // statistics and input of the embeddings' norm
  std::array<Block, 2> pooler_;  // its input and its product
  Block pooled_, d_logits_;
};

}  // namespace

ModelParameters CountParameters(const BertClassifierOptions& options) {
  const BertOptions& bert = options.bert;
  const LayerParameters layer = CountParameters(LayerOptionsOf(bert));
  const int64_t hidden = bert.hidden_size;
  return {.embeddings = (bert.vocab_size + bert.max_positions + bert.type_vocab_size) * hidden,
          .attention = bert.num_layers * layer.attention,
          .feed_forward = bert.num_layers * layer.feed_forward,
          .layer_norm = bert.num_layers * layer.layer_norm + 2 * hidden,
          .output = hidden * hidden + hidden + options.num_labels * (hidden + 1)};
}

ModelFlops CountFlops(const BertClassifierOptions& options, const BertBatch& batch,
                      Recompute recompute, int recompute_every) {
  const TransformerStackOptions stack = StackOf(options.bert);
  const auto tokens = static_cast<double>(batch.tokens);
  const auto texts = static_cast<double>(batch.texts);
  const auto hidden = static_cast<double>(options.bert.hidden_size);
  const double layer =
      ForwardFlops(stack.layer, {.tokens = tokens, .pairs = tokens * tokens / texts});
  const double output = 2.0 * texts * hidden * (hidden + static_cast<double>(options.num_labels));
  ModelFlops flops;
  flops.forward = stack.num_layers * layer + output;
  flops.backward = 2.0 * flops.forward;
  flops.recomputed = RecomputedLayers(stack, recompute, recompute_every) * layer;
  return flops;
}

int64_t PeakActivationBytes(const BertClassifierOptions& options, const BertBatch& batch,
                            const ActivationOptions& activations) {
  if (batch.texts == 0) return 0;
  ByteMeter meter;
  ClassifierBlocks blocks(options, batch, activations, meter);
  const Block inputs = TakeInputs(options, batch, meter);
  blocks.Forward();
  blocks.Backward();
  return meter.peak();
}

ModelCosts CostsOf(const BertClassifierOptions& options, const BertBatch& batch) {
  return {.parameters = CountParameters(options).total(),
          .deepest = options.bert.num_layers,
          .peak_bytes =
              [options, batch](const ActivationOptions& activations) {
                return PeakActivationBytes(options, batch, activations);
              },
          .flops =
              [options, batch](Recompute recompute, int recompute_every) {
                return CountFlops(options, batch, recompute, recompute_every);
              }};
}

}  // namespace dtrain
