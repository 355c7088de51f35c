// encoder_blocks.h - memory and operations of a BERT encoder, for the costs of whole models.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_MODELS_INTERNAL_ENCODER_BLOCKS_H_
#define DTRAIN_MODELS_INTERNAL_ENCODER_BLOCKS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "dtrain/models/bert_costs.h"
#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/costs.h"

namespace dtrain::internal {

inline TransformerStackOptions StackOf(const BertOptions& options) {
  return {.layer = LayerOptionsOf(options), .num_layers = options.num_layers};
}

// BertEncoder::Forward and Backward, block by block.
class EncoderBlocks {
 public:
  using Block = ByteMeter::Block;

  // output_rows: number of rows of the last layer that are used, if not all.
  EncoderBlocks(const BertOptions& options, const BertBatch& batch,
                const ActivationOptions& activations, ByteMeter& meter, int64_t output_rows = 0)
      : tokens_(batch.tokens),
        options_(options),
        dtype_(activations.compute_type),
        training_(activations.training),
        meter_(meter),
        layers_(StackOf(options), batch.tokens, /*memory_tokens=*/0, activations, meter,
                output_rows) {}

  // Returns the block of the last layer's output.
  Block Forward() {
    Block x = Embed();
    if (options_.has_projection()) {
      const Block embedded = std::move(x);
      x = OfTokens();
      if (training_) embedded_ = embedded;
    }
    return layers_.Forward(x);
  }

  void Backward(Block d_hidden) {
    d_hidden = layers_.Backward(std::move(d_hidden));
    if (options_.has_projection()) {
      d_hidden = Embedded();
      embedded_ = nullptr;
    }
    const Block d_embeddings = Embedded();
    norm_ = {};
  }

  // The block of a tensor [tokens, hidden].
  Block OfTokens() { return meter_.Take(tokens_ * options_.hidden_size, dtype_); }

 private:
  // BertEmbeddings::Forward, block by block.
  Block Embed() {
    Block x = Embedded();
    const Block type_rows = options_.has_types() ? Embedded() : nullptr;
    Block y = Embedded();
    norm_ = {meter_.Take(tokens_, DType::kFloat32), meter_.Take(tokens_, DType::kFloat32),
             std::move(x)};
    if (!training_) norm_ = {};
    return y;
  }

  // The block of a tensor [tokens, embedding width].
  Block Embedded() { return meter_.Take(tokens_ * options_.embedding_width(), dtype_); }

  int64_t tokens_;
  BertOptions options_;
  DType dtype_;
  bool training_;
  ByteMeter& meter_;
  StackBlocks layers_;
  Block embedded_;             // the projection's input
  std::array<Block, 3> norm_;  // statistics and input of the embeddings' norm
};

// Parameters of the embeddings and the stack. Callers add their head as `output`.
ModelParameters CountEncoder(const BertOptions& options);

// Operations of a model whose head takes `output_flops` for products and reads `output_rows` rows
// of the last layer (0 for all rows).
ModelFlops CountEncoderFlops(const BertOptions& options, const BertBatch& batch,
                             int64_t output_rows, double output_flops, Recompute recompute,
                             int recompute_every);

// The block of a batch's lists on the device: ids of pieces, types and positions, offsets, numbers
// of rows while training, and the head's `own` lists.
template <size_t n>
ByteMeter::Block TakeInputs(const BertBatch& batch, const std::array<int64_t, n>& own,
                            bool training, ByteMeter& meter) {
  std::array<int64_t, 5 + n> counts = {batch.tokens, batch.tokens, batch.tokens, batch.texts + 1,
                                       training ? batch.tokens : 0};
  std::copy(own.begin(), own.end(), counts.begin() + 5);
  return meter.Take(Context::UploadedElements(counts), DType::kInt32);
}

// The costs of the model with these options, from its own CountParameters(), CountFlops() and
// PeakActivationBytes().
template <typename Options, typename Batch>
ModelCosts CostsOfModel(const Options& options, const Batch& batch) {
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

}  // namespace dtrain::internal

#endif  // DTRAIN_MODELS_INTERNAL_ENCODER_BLOCKS_H_
