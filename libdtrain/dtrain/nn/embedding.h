// embedding.h - token embeddings with sinusoidal positions as a layer.
// SPDX-License-Identifier: Apache-2.0
//
//   ParameterSet parameters;
//   SinusoidalPositions positions({.max_length = 512, .hidden_size = 64});
//   TokenEmbedding embedding(Scope(parameters, "embed_tokens"),
//                            {.vocab_size = 100, .hidden_size = 64}, positions);
//   parameters.Allocate(ctx.device(), ctx.compute_type(), /*seed=*/1);
//   const std::vector<int32_t> ids = {5, 3, 2};
//   const Tensor x = embedding.Forward(ids, Sequences({0, 3}), ctx);  // [3, 64]
#ifndef DTRAIN_NN_EMBEDDING_H_
#define DTRAIN_NN_EMBEDDING_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dtrain/device/sequences.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

struct EmbeddingOptions;

// The table of FillSinusoids(). Several embeddings may share it.
class SinusoidalPositions {
 public:
  // The size of the table.
  struct Options {
    int64_t max_length = 512;   // length of the longest sequence
    int64_t hidden_size = 512;  // must be even
  };
  explicit SinusoidalPositions(const Options& options) : options_(options) {}

  int64_t max_length() const { return options_.max_length; }
  // [max_length, hidden] in the context's compute type. Filled at the first call.
  const Tensor& Table(const Context& ctx);

 private:
  Options options_;
  std::shared_ptr<Arena> arena_;
  Tensor table_;
};

// Returns the position of each token: 0, 1, ... within each sequence.
std::vector<int32_t> PositionsOf(const Sequences& sequences);

// The size of the table, and what follows the look-up.
struct TokenEmbeddingOptions {
  int64_t vocab_size = 32768;
  int64_t hidden_size = 512;
  int32_t zero_id = -1;  // this id embeds as zeros and is not trained; -1 for none
  // Looking up this id does not train its row, which begins as zeros; -1 for none. Where the table
  // is the output projection too, that trains the row. PyTorch's padding_idx does the same.
  int32_t padding_id = -1;
  float dropout = 0.0f;  // of the sum of token and position embeddings
};

// out[t] = dropout(sqrt(hidden) * table[ids[t]] + positions[position of t in its sequence]):
// Vaswani et al. 2017, sections 3.4 and 3.5. The table is initialised from N(0, 1 / hidden), so
// that scaled rows have variance 1.
class TokenEmbedding {
 public:
  // Creates its own table, the parameter "weight", and reports its gradient ready in Backward.
  // `positions` must outlive this object.
  TokenEmbedding(const Scope& scope, const TokenEmbeddingOptions& options,
                 SinusoidalPositions& positions);
  // Uses a table made by AddTable() that others use too. The table's owner must report its gradient
  // ready.
  TokenEmbedding(const Scope& scope, const TokenEmbeddingOptions& options,
                 SinusoidalPositions& positions, Parameter& shared_table);

  // Adds the parameter scope.weight: [vocab, hidden].
  static Parameter& AddTable(const Scope& scope, const TokenEmbeddingOptions& options);

  // Embeds a packed batch: ids of sequences.tokens() tokens. Positions count from 0 in each
  // sequence, and no sequence may be longer than the table of positions. Keeps the ids while
  // training.
  Tensor Forward(std::span<const int32_t> ids, const Sequences& sequences, Context& ctx);
  // Like above, with the ids and their positions already on the device: [tokens], int32.
  // row_numbers: see Context::MakeDropout().
  Tensor Forward(const Tensor& ids, const Tensor& position_ids, const Tensor& row_numbers,
                 Context& ctx);
  // Embeds one token per sequence, all at `position`, for decoding. Keeps nothing.
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
  Tensor ids_, position_ids_, row_numbers_;  // from the last forward while training
};

}  // namespace dtrain

#endif  // DTRAIN_NN_EMBEDDING_H_
