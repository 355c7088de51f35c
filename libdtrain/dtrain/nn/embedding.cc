// embedding.cc - numbers the positions of a packed batch and calls the embedding op.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/embedding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/device/arena.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/dropout.h"
#include "dtrain/ops/embedding.h"

namespace dtrain {

std::vector<int32_t> PositionsOf(const Sequences& sequences) {
  std::vector<int32_t> positions(static_cast<size_t>(sequences.tokens()));
  for (int64_t s = 0; s < sequences.count(); ++s) {
    for (int32_t t = sequences.begin(s); t < sequences.end(s); ++t) {
      positions[static_cast<size_t>(t)] = t - sequences.begin(s);
    }
  }
  return positions;
}

const Tensor& SinusoidalPositions::Table(const Context& ctx) {
  if (!table_ || table_.dtype() != ctx.compute_type() || table_.device() != ctx.device()) {
    arena_ = Arena::Create(ctx.device(), "positions");
    table_ = Empty(*arena_, {options_.max_length, options_.hidden_size}, ctx.compute_type());
    Stream stream(ctx.device());
    FillSinusoids(table_, stream);
    stream.Synchronize();
  }
  return table_;
}

Parameter& TokenEmbedding::AddTable(const Scope& scope, const TokenEmbeddingOptions& options) {
  Initializer initializer =
      Initializer::Normal(1.0f / std::sqrt(static_cast<float>(options.hidden_size)));
  initializer.zero_row = std::max(options.zero_id, options.padding_id);
  Parameter& table = scope.Add("weight", {options.vocab_size, options.hidden_size}, initializer);
  table.MarkEmbedding();
  return table;
}

TokenEmbedding::TokenEmbedding(const Scope& scope, const TokenEmbeddingOptions& options,
                               SinusoidalPositions& positions)
    : options_(options),
      table_(AddTable(scope, options)),
      owns_table_(true),
      positions_(positions),
      dropout_site_(scope.NewSite()) {}

TokenEmbedding::TokenEmbedding(const Scope& scope, const TokenEmbeddingOptions& options,
                               SinusoidalPositions& positions, Parameter& shared_table)
    : options_(options),
      table_(shared_table),
      owns_table_(false),
      positions_(positions),
      dropout_site_(scope.NewSite()) {
  DT_CHECK_EQ(shared_table.shape(), Shape({options.vocab_size, options.hidden_size}));
}

EmbeddingOptions TokenEmbedding::OpOptions(const Tensor& row_numbers, const Context& ctx) const {
  return {.scale = std::sqrt(static_cast<float>(options_.hidden_size)),
          .zero_id = options_.zero_id,
          .dropout = ctx.MakeDropout(options_.dropout, dropout_site_, row_numbers)};
}

Tensor TokenEmbedding::Embed(const Tensor& ids, const Tensor& position_ids,
                             const Tensor& row_numbers, Context& ctx) {
  Tensor embedded = ctx.Empty({ids.dim(0), options_.hidden_size});
  EmbeddingForward(ids, position_ids, table_.value(), positions_.Table(ctx),
                   OpOptions(row_numbers, ctx), embedded, ctx.stream());
  return embedded;
}

Tensor TokenEmbedding::Forward(std::span<const int32_t> ids, const Sequences& sequences,
                               Context& ctx) {
  DT_CHECK_EQ(static_cast<int64_t>(ids.size()), sequences.tokens());
  DT_CHECK_LE(sequences.max_length(), positions_.max_length())
      << "a sequence is longer than the table of positions (max_length)";
  return Forward(ctx.Upload(ids), ctx.Upload(PositionsOf(sequences)), sequences.row_numbers(), ctx);
}

Tensor TokenEmbedding::Forward(const Tensor& ids, const Tensor& position_ids,
                               const Tensor& row_numbers, Context& ctx) {
  if (ctx.training()) {
    ids_ = ids;
    position_ids_ = position_ids;
    row_numbers_ = row_numbers;
  }
  return Embed(ids, position_ids, row_numbers, ctx);
}

Tensor TokenEmbedding::ForwardAt(std::span<const int32_t> ids, int32_t position, Context& ctx) {
  DT_CHECK_LT(position, positions_.max_length());
  return Embed(ctx.Upload(ids), ctx.Upload(std::vector<int32_t>(ids.size(), position)), Tensor(),
               ctx);
}

void TokenEmbedding::Backward(const Tensor& dy, Context& ctx) {
  DT_CHECK(ids_) << "Backward() without Forward()";
  if (table_.is_frozen()) {
    ids_ = position_ids_ = row_numbers_ = Tensor();
    return;
  }
  Tensor& d_table = table_.gradient();
  Tensor none;
  EmbeddingOptions options = OpOptions(row_numbers_, ctx);
  options.zero_id = std::max(options_.zero_id, options_.padding_id);
  EmbeddingBackward(dy, ids_, position_ids_, options, d_table, none, ctx.stream());
  ids_ = position_ids_ = row_numbers_ = Tensor();
  if (options_.zero_id >= 0) {
    // If the table is also the output projection, this row has a gradient as an output class.
    Tensor row = d_table.Rows(options_.zero_id, options_.zero_id + 1);
    Zero(row, ctx.stream());
  }
  if (owns_table_) table_.GradientReady();
}

}  // namespace dtrain
