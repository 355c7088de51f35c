// warm_up_steps.cc - sequences of even lengths with random contents.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/warm_up_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dtrain/nn/embedding.h"

namespace dtrain::internal {

Sequences EvenSequences(int64_t tokens, int64_t count) {
  std::vector<int32_t> offsets;
  for (int64_t i = 0; i <= count; ++i) {
    offsets.push_back(static_cast<int32_t>(std::max(tokens, count) * i / count));
  }
  return Sequences(std::move(offsets));
}

int64_t ShareOf(double share, double whole) {
  return std::max<int64_t>(1, std::llround(share * whole));
}

std::vector<int32_t> DrawIds(int64_t count, int64_t below, RandomStream& random) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(below)));
  return ids;
}

void FillTexts(const BertBatch& planned, const BertOptions& model, double share,
               PackedTexts& batch) {
  RandomStream random({.seed = 1});
  const int64_t texts = ShareOf(share, static_cast<double>(planned.texts));
  batch.sequences = EvenSequences(ShareOf(share, static_cast<double>(planned.tokens)), texts);
  const int64_t tokens = batch.sequences.tokens();
  batch.token_ids = DrawIds(tokens, model.vocab_size, random);
  batch.type_ids = DrawIds(tokens, std::max<int64_t>(model.type_vocab_size, 1), random);
  batch.position_ids = PositionsOf(batch.sequences);
}

}  // namespace dtrain::internal
