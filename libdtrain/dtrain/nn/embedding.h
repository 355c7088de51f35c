// embedding.h - token embeddings with sinusoidal positions as a layer.
// SPDX-License-Identifier: Apache-2.0
//
//   SinusoidalPositions positions({.max_length = 512, .hidden_size = 256});
//   TokenEmbedding embedding(scope / "embed_tokens", {.vocab_size = 32000, .hidden_size = 256},
//                       positions);
//   Tensor x = embedding.Forward(ids, sequences, ctx);  // [tokens, hidden]
//   ...
//   embedding.Backward(dx, ctx);
#ifndef DTRAIN_NN_EMBEDDING_H_
#define DTRAIN_NN_EMBEDDING_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dtrain/device/sequences.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/embedding.h"

namespace dtrain {

// The table of FillSinusoids(), which several embeddings may share.
class SinusoidalPositions {
 public:
  struct Options {
    int64_t max_length = 512;   // the longest sequence
    int64_t hidden_size = 512;  // even
  };
  explicit SinusoidalPositions(const Options& options) : options_(options) {}

  int64_t max_length() const { return options_.max_length; }
  // [max_length, hidden], in the context's compute type; filled at the first call.
  const Tensor& Table(const Context& ctx);

 private:
  Options options_;
  std::shared_ptr<Arena> arena_;
  Tensor table_;
};

// 0, 1, ... within each sequence.
std::vector<int32_t> PositionsOf(const Sequences& sequences);

struct TokenEmbeddingOptions {
  int64_t vocab_size = 32768;
  int64_t hidden_size = 512;
  int32_t zero_id = -1;  // embeds as zeros and learns nothing; -1 for none
  float dropout = 0.0f;  // of the sum of token and position
};

// out[t] = dropout(sqrt(hidden) * table[ids[t]] + positions[place of t in its sequence]):
// Vaswani et al. 2017, sections 3.4 and 3.5. Rows of the table start as N(0, 1 / hidden), so that
// scaled rows have variance 1.
class TokenEmbedding {
 public:
  // With a table "weight" of its own, which Backward reports ready. `positions` must outlive this.
  TokenEmbedding(const Scope& scope, const TokenEmbeddingOptions& options,
                 SinusoidalPositions& positions);
  // With a table made by AddTable() that others use as well: its owner reports it ready.
  TokenEmbedding(const Scope& scope, const TokenEmbeddingOptions& options,
                 SinusoidalPositions& positions, Parameter& shared_table);

  // The parameter scope.weight: [vocab, hidden].
  static Parameter& AddTable(const Scope& scope, const TokenEmbeddingOptions& options);

  // A packed batch: ids of sequences.tokens() tokens, each numbered from 0 in its sequence, none
  // longer than the table of positions. Keeps the ids while training.
  Tensor Forward(std::span<const int32_t> ids, const Sequences& sequences, Context& ctx);
  // The same of what is on the device already: ids and their places in their sequences, [tokens],
  // int32; row_numbers: as in Context::MakeDropout().
  Tensor Forward(const Tensor& ids, const Tensor& position_ids, const Tensor& row_numbers,
                 Context& ctx);
  // One token per sequence, all at `position`, for decoding; keeps nothing.
  Tensor ForwardAt(std::span<const int32_t> ids, int32_t position, Context& ctx);
  // Adds to the table's gradient; the row of zero_id stays zero. dy: [tokens, hidden].
  void Backward(const Tensor& dy, Context& ctx);

  Parameter& table() { return table_; }

 private:
  Tensor Embed(const Tensor& ids, const Tensor& position_ids, const Tensor& row_numbers,
               Context& ctx);
  EmbeddingOptions OpOptions(const Tensor& row_numbers, const Context& ctx) const;

  TokenEmbeddingOptions options_;
  Parameter& table_;
  bool owns_table_;
  SinusoidalPositions& positions_;
  uint32_t dropout_site_;
  Tensor ids_, position_ids_, row_numbers_;  // of the last forward while training
};

}  // namespace dtrain

#endif  // DTRAIN_NN_EMBEDDING_H_
