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
#include "dtrain/models/head_transform.h"
#include "dtrain/nn/costs.h"

namespace dtrain::internal {

// BertEncoder::Forward and Backward, block by block.
class EncoderBlocks {
 public:
  using Block = ByteMeter::Block;

  // output_rows: number of rows of the last layer that are used, if not all.
  EncoderBlocks(const BertOptions& options, const BertBatch& batch,
                const ActivationOptions& activations, ByteMeter& meter, int64_t output_rows = 0)
      : tokens_(batch.tokens),
        read_(output_rows),
        options_(options),
        dtype_(activations.compute_type),
        training_(activations.training),
        meter_(meter),
        layers_(StackOptionsOf(options), batch.tokens, /*memory_tokens=*/0, activations, meter,
                is_pre_norm() ? 0 : output_rows) {}

  // Returns the block of the encoder's output.
  Block Forward() {
    Block x = Embed();
    if (options_.has_projection()) {
      const Block embedded = std::move(x);
      x = OfTokens();
      if (training_) embedded_ = embedded;
    }
    x = layers_.Forward(x);
    return is_pre_norm() ? ForwardFinalNorm(std::move(x)) : x;
  }

  // At most what backward takes: one adapter at a time has rows of its rank, which here are kept
  // all the while.
  void Backward(Block d_hidden) {
    const int rank = options_.low_rank.rank;
    const Block low = rank > 0 ? meter_.Take(tokens_ * rank, dtype_) : nullptr;
    if (is_pre_norm()) d_hidden = BackwardFinalNorm();
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

  bool is_pre_norm() const { return options_.family->form.is_pre_norm(); }
  int64_t normed_rows() const { return read_ > 0 ? read_ : tokens_; }
  Block Normed() { return meter_.Take(normed_rows() * options_.hidden_size, dtype_); }

  Block ForwardFinalNorm(Block x) {
    if (read_ > 0) x = Normed();
    Block y = Normed();
    final_norm_ = {meter_.Take(normed_rows(), DType::kFloat32),
                   meter_.Take(normed_rows(), DType::kFloat32), std::move(x)};
    if (!training_) final_norm_ = {};
    return y;
  }

  Block BackwardFinalNorm() {
    const Block own = Normed();
    final_norm_ = {};
    return read_ > 0 ? OfTokens() : own;
  }

  // The block of a tensor [tokens, embedding width].
  Block Embedded() { return meter_.Take(tokens_ * options_.embedding_width(), dtype_); }

  int64_t tokens_;
  int64_t read_;  // rows of the output that are used, 0 for all
  BertOptions options_;
  DType dtype_;
  bool training_;
  ByteMeter& meter_;
  StackBlocks layers_;
  Block embedded_;  // the projection's input
  // Statistics and input of the embeddings' norm, and of that behind pre-norm layers.
  std::array<Block, 3> norm_, final_norm_;
};

// HeadTransform::Forward and Backward, block by block.
class HeadTransformBlocks {
 public:
  using Block = ByteMeter::Block;

  HeadTransformBlocks(const HeadTransformOptions& options, int64_t rows,
                      const ActivationOptions& activations, ByteMeter& meter)
      : options_(options), rows_(rows), activations_(activations), meter_(meter) {}

  Block Forward(Block x) {
    Block before = Out();
    Block y = Out();
    Block after, mean, rstd;
    if (!options_.norm.empty()) {
      after = std::exchange(y, Out());
      mean = meter_.Take(rows_, DType::kFloat32);
      rstd = meter_.Take(rows_, DType::kFloat32);
    }
    if (activations_.training) {
      product_ = {std::move(x), std::move(before)};
      norm_ = {std::move(after), std::move(mean), std::move(rstd)};
    }
    return y;
  }

  Block Backward() {
    const Block d_norm = options_.norm.empty() ? nullptr : Out();
    norm_ = {};
    const Block d_before = Out();
    product_[1] = nullptr;
    Block dx = meter_.Take(rows_ * options_.in, activations_.compute_type);
    product_ = {};
    return dx;
  }

 private:
  Block Out() { return meter_.Take(rows_ * options_.out, activations_.compute_type); }

  HeadTransformOptions options_;
  int64_t rows_;
  ActivationOptions activations_;
  ByteMeter& meter_;
  std::array<Block, 2> product_;  // input and output of the product
  std::array<Block, 3> norm_;     // input and statistics of the norm
};

// Parameters of what TokenTransformOf() makes; 0 if that is nothing.
inline int64_t CountTokenTransform(const BertOptions& options) {
  if (!options.family->transforms_tokens) return 0;
  return CountParameters(ClassifierTransformOf(options));
}

// Elements of the matrix that it multiplies a token by.
inline int64_t TokenTransformProduct(const BertOptions& options) {
  return options.family->transforms_tokens ? options.hidden_size * options.hidden_size : 0;
}

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
  const ModelParameters counts = CountParameters(options);
  return {.parameters = counts.total(),
          .trained_parameters = counts.trained(),
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
