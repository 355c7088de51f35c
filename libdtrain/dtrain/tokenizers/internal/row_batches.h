// row_batches.h - encodes many rows on several threads.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_ROW_BATCHES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_ROW_BATCHES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/data/internal/parallel_parts.h"
#include "dtrain/tokenizers/encoded_texts.h"

namespace dtrain::internal {

inline size_t BytesOf(std::span<const std::string_view> first,
                      std::span<const std::string_view> second, size_t row) {
  // Each row has a fixed cost too.
  return first[row].size() + (second.empty() ? 0 : second[row].size()) + 16;
}

// The first rows of parts with about equal numbers of bytes, followed by the number of rows.
inline std::vector<size_t> PartBegins(std::span<const std::string_view> first,
                                      std::span<const std::string_view> second, size_t num_parts) {
  size_t total = 0;
  for (size_t i = 0; i < first.size(); ++i) total += BytesOf(first, second, i);
  std::vector<size_t> begins = {0};
  size_t done = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    while (begins.size() < num_parts && done >= total * begins.size() / num_parts) {
      begins.push_back(i);
    }
    done += BytesOf(first, second, i);
  }
  begins.resize(num_parts + 1, first.size());
  return begins;
}

// One thread for each of `encoders`. encode(encoder, first, second, ids) appends a row's ids, and
// returns how many of them have type 0. `second` is empty or has as many texts as `first`. The
// result does not depend on the number of encoders.
template <typename Encoder, typename Encode>
EncodedTexts EncodeRows(std::vector<Encoder>& encoders, std::span<const std::string_view> first,
                        std::span<const std::string_view> second, const Encode& encode) {
  DT_CHECK(second.empty() || second.size() == first.size())
      << first.size() << " first texts, " << second.size() << " second ones";
  const size_t num_parts = encoders.size();
  const std::vector<size_t> begins = PartBegins(first, second, num_parts);
  std::vector<std::vector<int32_t>> parts(num_parts);
  EncodedTexts result;
  result.offsets.resize(first.size() + 1);
  result.type0_sizes.resize(first.size());
  ForEachPart(num_parts, [&](size_t p) {
    size_t bytes = 0;
    for (size_t i = begins[p]; i < begins[p + 1]; ++i) bytes += BytesOf(first, second, i);
    parts[p].reserve(bytes / 4);
    for (size_t i = begins[p]; i < begins[p + 1]; ++i) {
      const size_t before = parts[p].size();
      std::optional<std::string_view> other;
      if (!second.empty()) other = second[i];
      result.type0_sizes[i] = encode(encoders[p], first[i], other, parts[p]);
      result.offsets[i + 1] = static_cast<int64_t>(parts[p].size() - before);
    }
  });
  for (size_t i = 0; i < first.size(); ++i) result.offsets[i + 1] += result.offsets[i];
  if (num_parts == 1) {
    result.ids = std::move(parts[0]);
    return result;
  }
  result.ids.resize(static_cast<size_t>(result.offsets.back()));
  ForEachPart(num_parts, [&](size_t p) {
    std::copy(parts[p].begin(), parts[p].end(), result.ids.begin() + result.offsets[begins[p]]);
  });
  return result;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_ROW_BATCHES_H_
