// line_batches.h - encodes lines in parallel, each thread a consecutive part of them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_LINE_BATCHES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_LINE_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "dtrain/data/internal/parallel_parts.h"
#include "dtrain/tokenizers/bpe.h"

namespace dtrain::internal {

// `encode(part, line, ids)` appends the ids of a line. Calls with one number of a part come one
// after the other, so that they can share an encoder. num_parts is at least 1.
template <typename Encode>
EncodedLines EncodeLinesInParts(size_t num_parts, size_t num_lines, const Encode& encode) {
  struct Part {
    std::vector<int32_t> ids;
    std::vector<int64_t> sizes;
  };
  std::vector<Part> parts(num_parts);
  ForEachPart(num_parts, [&](size_t p) {
    for (size_t i = num_lines * p / num_parts; i < num_lines * (p + 1) / num_parts; ++i) {
      const size_t before = parts[p].ids.size();
      encode(p, i, parts[p].ids);
      parts[p].sizes.push_back(static_cast<int64_t>(parts[p].ids.size() - before));
    }
  });
  EncodedLines result{std::move(parts[0].ids), {0}};
  result.offsets.reserve(num_lines + 1);
  for (size_t p = 0; p < num_parts; ++p) {
    result.ids.insert(result.ids.end(), parts[p].ids.begin(), parts[p].ids.end());
    for (const int64_t size : parts[p].sizes) {
      result.offsets.push_back(result.offsets.back() + size);
    }
  }
  return result;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_LINE_BATCHES_H_
