// wordpiece_encoder.cc - encodes texts, rows and batches of rows.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/data/internal/parallel_parts.h"
#include "dtrain/data/internal/wordpiece_cache.h"
#include "dtrain/data/internal/wordpiece_tables.h"
#include "dtrain/data/wordpiece.h"

namespace dtrain {
namespace internal {

struct WordPieceScratch {
  explicit WordPieceScratch(size_t cache_bytes) : cache(cache_bytes) {}

  // Appends the ids of `word` by way of the cache; `encode` appends them where it has to be.
  // `readable` bytes from the word's first on may be read.
  template <typename Encode>
  void Remember(std::string_view word, size_t readable, std::vector<int32_t>& ids,
                const Encode& encode) {
    if (word.size() > ShortWord::kMaxBytes || !cache.is_on()) return encode();
    const ShortWord key(word.data(), word.size(), readable);
    const std::span<const int32_t> known = cache.Find(key);
    if (known.size() == 1) return ids.push_back(known[0]);
    if (!known.empty()) {
      ids.insert(ids.end(), known.begin(), known.end());
      return;
    }
    const size_t begin = ids.size();
    encode();
    const size_t count = ids.size() - begin;
    if (count > 0 && count <= WordPieceCache::kMaxIds) {
      cache.Store(key, std::span(ids).subspan(begin));
    }
  }

  WordPieceCache cache;
  WordList words;
  std::string lowered;
};

}  // namespace internal

namespace {

struct RowSizes {
  size_t first;
  size_t second;
};

// How much of each side is kept so that both together have at most `bound` tokens.
RowSizes Truncated(RowSizes sizes, size_t bound, bool hugging_face) {
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

}  // namespace

WordPieceEncoder::WordPieceEncoder(WordPieceTokenizer tokenizer, size_t cache_bytes)
    : tokenizer_(std::move(tokenizer)),
      scratch_(std::make_unique<internal::WordPieceScratch>(cache_bytes)) {}
WordPieceEncoder::WordPieceEncoder(WordPieceEncoder&&) noexcept = default;
WordPieceEncoder& WordPieceEncoder::operator=(WordPieceEncoder&&) noexcept = default;
WordPieceEncoder::~WordPieceEncoder() = default;

void WordPieceEncoder::EncodeAsciiWord(std::string_view word, size_t readable,
                                       std::vector<int32_t>& ids) {
  scratch_->Remember(word, readable, ids, [&] {
    const internal::WordPieceTables& tables = *tokenizer_.tables_;
    std::string& lowered = scratch_->lowered;
    lowered.resize(word.size());
    std::transform(word.begin(), word.end(), lowered.begin(),
                   [&](char c) { return tables.lower_bytes[static_cast<uint8_t>(c)]; });
    tables.EncodeWord(lowered, lowered.size(), ids);
  });
}

void WordPieceEncoder::EncodeUnicodeChunk(std::string_view chunk, size_t readable,
                                          std::vector<int32_t>& ids) {
  scratch_->Remember(chunk, readable, ids, [&] {
    const internal::WordPieceTables& tables = *tokenizer_.tables_;
    internal::WordList& list = scratch_->words;
    internal::SplitWords(tables.characters, chunk, list);
    for (const internal::WordList::Word& word : list.words) {
      tables.EncodeWord(list.word(word), word.num_chars, ids);
    }
  });
}

size_t WordPieceEncoder::EncodeChunk(std::string_view text, std::vector<int32_t>& ids) {
  using internal::ByteClass;
  const internal::WordPieceTables& tables = *tokenizer_.tables_;
  const size_t ids_before = ids.size();
  const auto class_at = [&](size_t i) {
    return i < text.size() ? tables.ClassOf(text[i]) : ByteClass::kSpace;
  };
  size_t at = 0;
  while (true) {
    const size_t begin = at;
    while (class_at(at) == ByteClass::kWord) ++at;
    const ByteClass next = class_at(at);
    if (next == ByteClass::kOther) break;
    if (at > begin) EncodeAsciiWord(text.substr(begin, at - begin), text.size() - begin, ids);
    if (next == ByteClass::kSpace) return at;
    ids.push_back(tables.punctuation_ids[static_cast<uint8_t>(text[at])]);
    ++at;
  }
  // Whatever is not plain ASCII may change how what stands before it is taken apart: once more, all
  // of the chunk.
  ids.resize(ids_before);
  while (class_at(at) != ByteClass::kSpace) ++at;
  EncodeUnicodeChunk(text.substr(0, at), text.size(), ids);
  return at;
}

void WordPieceEncoder::EncodePlain(std::string_view text, std::vector<int32_t>& ids) {
  const internal::WordPieceTables& tables = *tokenizer_.tables_;
  while (!text.empty()) {
    if (tables.ClassOf(text[0]) == internal::ByteClass::kSpace) {
      text.remove_prefix(1);
    } else {
      text.remove_prefix(EncodeChunk(text, ids));
    }
  }
}

void WordPieceEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) {
  const internal::WordPieceTables& tables = *tokenizer_.tables_;
  if (*tables.options.match_special_tokens) {
    for (size_t at = text.find('['); at != std::string_view::npos;) {
      const size_t token = tables.SpecialTokenAt(text.substr(at));
      if (token == internal::kNumSpecialTokens) {
        at = text.find('[', at + 1);
        continue;
      }
      EncodePlain(text.substr(0, at), ids);
      ids.push_back(tables.special_ids[token]);
      text.remove_prefix(at + internal::kSpecialTokens[token].size());
      at = text.find('[');
    }
  }
  EncodePlain(text, ids);
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
  RowSizes sizes{middle - begin - 1, ids.size() - middle};
  const bool is_pair = second && (tables.is_hugging_face() || sizes.second > 0);
  if (options.max_length > 0) {
    const auto bound = static_cast<size_t>(options.max_length - (is_pair ? 3 : 2));
    sizes = Truncated(sizes, bound, tables.is_hugging_face());
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
  const size_t rows = first.size();
  std::vector<std::vector<int32_t>> parts(num_parts);
  EncodedTexts result;
  result.offsets.resize(rows + 1);
  result.type0_sizes.resize(rows);
  internal::ForEachPart(num_parts, [&](size_t p) {
    for (size_t i = rows * p / num_parts; i < rows * (p + 1) / num_parts; ++i) {
      const size_t before = parts[p].size();
      std::optional<std::string_view> other;
      if (!second.empty()) other = second[i];
      result.type0_sizes[i] = encoders_[p].EncodeRow(first[i], other, options, parts[p]);
      result.offsets[i + 1] = static_cast<int64_t>(parts[p].size() - before);
    }
  });
  for (size_t i = 0; i < rows; ++i) result.offsets[i + 1] += result.offsets[i];
  result.ids = std::move(parts[0]);
  for (size_t p = 1; p < num_parts; ++p) {
    result.ids.insert(result.ids.end(), parts[p].begin(), parts[p].end());
  }
  return result;
}

}  // namespace dtrain
