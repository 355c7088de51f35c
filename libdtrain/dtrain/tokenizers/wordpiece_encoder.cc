// wordpiece_encoder.cc - encodes texts, rows and batches of rows.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/tokenizers/internal/row_batches.h"
#include "dtrain/tokenizers/internal/row_sizes.h"
#include "dtrain/tokenizers/internal/wordpiece_tables.h"
#include "dtrain/tokenizers/internal/wordpiece_text.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain {
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
  return internal::EncodeRows(
      encoders_, first, second,
      [&](WordPieceEncoder& encoder, std::string_view text, std::optional<std::string_view> other,
          std::vector<int32_t>& ids) { return encoder.EncodeRow(text, other, options, ids); });
}

}  // namespace dtrain
