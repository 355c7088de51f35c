// rows.h - puts texts and special tokens together to a row, as a tokenizer.json says.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_ROWS_H_
#define DTRAIN_TOKENIZERS_INTERNAL_ROWS_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/tokenizers/internal/tokenizer_file.h"

namespace dtrain::internal {

// Overwrites `ids` and `types` with the row. A row of more than max_length ids loses tokens at the
// end of its texts, the longer text first; 0 means no limit. max_length must have room for the
// special tokens.
void MakeRow(std::span<const RowPart> parts, std::array<std::vector<int32_t>, 2> texts,
             int max_length, std::vector<int32_t>& ids, std::vector<int32_t>& types);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_ROWS_H_
