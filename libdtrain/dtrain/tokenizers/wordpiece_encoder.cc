// wordpiece_encoder.cc - encodes texts, rows and batches of rows.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/data/internal/parallel_parts.h"
#include "dtrain/tokenizers/internal/row_sizes.h"
#include "dtrain/tokenizers/internal/wordpiece_tables.h"
#include "dtrain/tokenizers/internal/wordpiece_text.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain {
namespace {

size_t BytesOf(std::span<const std::string_view> first, std::span<const std::string_view> second,
               size_t row) {
  // Each row has a fixed cost too.
  return first[row].size() + (second.empty() ? 0 : second[row].size()) + 16;
}

// The first rows of parts with about equal numbers of bytes, followed by the number of rows.
std::vector<size_t> PartBegins(std::span<const std::string_view> first,
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

}  // namespace

WordPieceEncoder::WordPieceEncoder(WordPieceTokenizer tokenizer, size_t cache_bytes)
    : tokenizer_(std::move(tokenizer)),
      text_encoder_(
          std::make_unique<internal::WordPieceTextEncoder>(*tokenizer_.tables_, cache_bytes)) {}
WordPieceEncoder::WordPieceEncoder(WordPieceEncoder&&) noexcept = default;
WordPieceEncoder& WordPieceEncoder::operator=(WordPieceEncoder&&) noexcept = default;
WordPieceEncoder::~WordPieceEncoder() = default;

void WordPieceEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) {
  text_encoder_->Encode(text, ids);
}

int64_t WordPieceEncoder::EncodeRow(std::string_view first, std::optional<std::string_view> second,
                                    const WordPieceRowOptions& options, std::vector<int32_t>& ids) {
  DT_CHECK(options.max_length == 0 || options.max_length >= 3)
      << "max_length is " << options.max_length << "; [CLS] and two [SEP] need 3";
  const internal::WordPieceTables& tables = *tokenizer_.tables_;
  const size_t begin = ids.size();
  ids.push_back(tables.special_ids[internal::kCls]);
  Encode(first, ids);
  const size_t middle = ids.size();
  if (second) Encode(*second, ids);
  internal::RowSizes sizes{middle - begin - 1, ids.size() - middle};
  const bool is_pair = second && (tables.is_hugging_face() || sizes.second > 0);
  if (options.max_length > 0) {
    const auto bound = static_cast<size_t>(options.max_length - (is_pair ? 3 : 2));
    sizes = internal::TruncatedSizes(sizes, bound, tables.is_hugging_face());
  }
  ids.resize(middle + sizes.second);
  const auto end_of_first = ids.begin() + static_cast<std::ptrdiff_t>(begin + 1 + sizes.first);
  ids.erase(end_of_first, ids.begin() + static_cast<std::ptrdiff_t>(middle));
  ids.insert(end_of_first, tables.special_ids[internal::kSep]);
  if (is_pair) ids.push_back(tables.special_ids[internal::kSep]);
  return static_cast<int64_t>(sizes.first + 2);
}

void WordPieceEncoder::EncodePair(std::string_view first, std::optional<std::string_view> second,
                                  const WordPieceRowOptions& options, std::vector<int32_t>& ids,
                                  std::vector<int32_t>& type_ids) {
  ids.clear();
  const int64_t type0_size = EncodeRow(first, second, options, ids);
  type_ids.assign(ids.size(), 1);
  std::fill_n(type_ids.begin(), type0_size, 0);
}

WordPieceBatchEncoder::WordPieceBatchEncoder(const WordPieceTokenizer& tokenizer, int num_threads) {
  const int count = num_threads > 0 ? num_threads : NumThreads();
  for (int i = 0; i < count; ++i) encoders_.emplace_back(tokenizer);
}

EncodedTexts WordPieceBatchEncoder::Encode(std::span<const std::string_view> first,
                                           std::span<const std::string_view> second,
                                           const WordPieceRowOptions& options) {
  DT_CHECK(second.empty() || second.size() == first.size())
      << first.size() << " first texts, " << second.size() << " second ones";
  const size_t num_parts = encoders_.size();
  const std::vector<size_t> begins = PartBegins(first, second, num_parts);
  std::vector<std::vector<int32_t>> parts(num_parts);
  EncodedTexts result;
  result.offsets.resize(first.size() + 1);
  result.type0_sizes.resize(first.size());
  internal::ForEachPart(num_parts, [&](size_t p) {
    size_t bytes = 0;
    for (size_t i = begins[p]; i < begins[p + 1]; ++i) bytes += BytesOf(first, second, i);
    parts[p].reserve(bytes / 4);
    for (size_t i = begins[p]; i < begins[p + 1]; ++i) {
      const size_t before = parts[p].size();
      std::optional<std::string_view> other;
      if (!second.empty()) other = second[i];
      result.type0_sizes[i] = encoders_[p].EncodeRow(first[i], other, options, parts[p]);
      result.offsets[i + 1] = static_cast<int64_t>(parts[p].size() - before);
    }
  });
  for (size_t i = 0; i < first.size(); ++i) result.offsets[i + 1] += result.offsets[i];
  if (num_parts == 1) {
    result.ids = std::move(parts[0]);
    return result;
  }
  result.ids.resize(static_cast<size_t>(result.offsets.back()));
  internal::ForEachPart(num_parts, [&](size_t p) {
    std::copy(parts[p].begin(), parts[p].end(), result.ids.begin() + result.offsets[begins[p]]);
  });
  return result;
}

}  // namespace dtrain
