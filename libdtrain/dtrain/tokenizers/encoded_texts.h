// encoded_texts.h - what tokenizers return: rows of ids, and where tokens come from.
// SPDX-License-Identifier: Apache-2.0
//
//   const EncodedTexts rows{.ids = {2, 7, 3}, .offsets = {0, 3}, .type0_sizes = {3}};
//   std::printf("%zu tokens\n", rows.row(0).size());  // 3 tokens
#ifndef DTRAIN_TOKENIZERS_ENCODED_TEXTS_H_
#define DTRAIN_TOKENIZERS_ENCODED_TEXTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dtrain {

// The place of a token in its text: bytes [begin, end).
struct TokenSpan {
  int32_t begin = 0;
  int32_t end = 0;
  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};

// A row holds the ids of a text, or of a pair of texts, as the model reads them. The rows lie one
// behind the other: row i is ids[offsets[i]] to ids[offsets[i + 1] - 1]. Its first type0_sizes[i]
// tokens have type 0, the others type 1 (token_type_ids).
struct EncodedTexts {
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets;      // [rows + 1]
  std::vector<int64_t> type0_sizes;  // [rows]

  int64_t num_rows() const { return static_cast<int64_t>(type0_sizes.size()); }
  // The ids of row i.
  std::span<const int32_t> row(size_t i) const {
    return std::span(ids).subspan(static_cast<size_t>(offsets[i]),
                                  static_cast<size_t>(offsets[i + 1] - offsets[i]));
  }
};

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_ENCODED_TEXTS_H_
