// row_sizes.h - how many tokens of each text stay in a row that is too long.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_ROW_SIZES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_ROW_SIZES_H_

#include <algorithm>
#include <cstddef>

namespace dtrain::internal {

struct RowSizes {
  size_t first;
  size_t second;
};

// Number of tokens of each side that are kept so that both together have at most `bound`. The
// longer side loses first. Of an odd bound the first side gets one more, but with Hugging Face's
// rule the side that was longer, or the second if both were equally long.
inline RowSizes TruncatedSizes(RowSizes sizes, size_t bound, bool hugging_face) {
  if (sizes.first + sizes.second <= bound) return sizes;
  const size_t half = bound / 2;
  const size_t shorter = std::min(sizes.first, sizes.second);
  if (shorter <= half) {
    return sizes.first < sizes.second ? RowSizes{shorter, bound - shorter}
                                      : RowSizes{bound - shorter, shorter};
  }
  const bool odd_to_second = hugging_face && sizes.first <= sizes.second;
  return odd_to_second ? RowSizes{half, bound - half} : RowSizes{bound - half, half};
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_ROW_SIZES_H_
