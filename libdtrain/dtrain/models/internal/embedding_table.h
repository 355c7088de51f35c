// embedding_table.h - the table of an embedding, as BERT and GPT initialise theirs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_MODELS_INTERNAL_EMBEDDING_TABLE_H_
#define DTRAIN_MODELS_INTERNAL_EMBEDDING_TABLE_H_

#include <cstdint>
#include <string_view>

#include "dtrain/nn/parameter.h"

namespace dtrain::internal {

// Parameter "NAME.weight" of [rows, columns], normally distributed with this standard deviation.
inline Parameter& AddEmbeddingTable(const Scope& scope, std::string_view name, int64_t rows,
                                    int64_t columns, float deviation) {
  Parameter& table = (scope / name).Add("weight", {rows, columns}, Initializer::Normal(deviation));
  table.MarkEmbedding();
  return table;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_MODELS_INTERNAL_EMBEDDING_TABLE_H_
