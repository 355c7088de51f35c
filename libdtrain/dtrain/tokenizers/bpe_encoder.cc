// bpe_encoder.cc - merges symbols in the order of their ranks, and caches words.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/tokenizers/bpe.h"
#include "dtrain/tokenizers/internal/bpe_tables.h"
#include "dtrain/tokenizers/internal/bpe_text.h"
#include "dtrain/tokenizers/internal/line_batches.h"
#include "dtrain/tokenizers/internal/word_cache.h"

namespace dtrain {
namespace internal {
namespace {

// User-defined pieces are symbols as they are: no pair has one.
void SplitIntoSymbols(const BpeTables& tables, std::string_view segment, BpeScratch& scratch) {
  scratch.symbols.clear();
  DT_CHECK_LT(segment.size(), size_t{INT32_MAX}) << "a line must be shorter than 2 GiB";
  for (size_t begin = 0; begin < segment.size();) {
    size_t size;
    const uint32_t c = DecodeUtf8(segment.substr(begin), size);
    int32_t symbol =
        c < tables.symbol_of_code_point.size() ? tables.symbol_of_code_point[c] : kNoSymbol;
    if (tables.user_defined) {
      tables.user_defined->Walk(segment.substr(begin), [&](size_t bytes, int32_t id) {
        size = bytes;
        symbol = id;
      });
    }
    const auto index = static_cast<int32_t>(scratch.symbols.size());
    scratch.symbols.push_back(
        {symbol, index - 1, index + 1, static_cast<uint32_t>(begin), static_cast<uint32_t>(size)});
    begin += size;
  }
  scratch.symbols.back().next = -1;
}

}  // namespace

void MergeSegment(const BpeTables& tables, std::string_view segment, MergeDropout* dropout,
                  BpeScratch& scratch) {
  SplitIntoSymbols(tables, segment, scratch);
  MergeSymbols(tables.pairs, dropout, scratch);
}

void AppendIds(const BpeTables& tables, std::string_view segment, const BpeScratch& scratch,
               size_t begin, std::vector<int32_t>& ids) {
  const int32_t unk_id = tables.vocabulary.unk_id;
  for (int32_t i = 0; i >= 0; i = scratch.symbols[static_cast<size_t>(i)].next) {
    const BpeScratch::Symbol& symbol = scratch.symbols[static_cast<size_t>(i)];
    if (tables.is_known(symbol.symbol)) {
      ids.push_back(symbol.symbol);
    } else if (tables.vocabulary.byte_fallback) {
      for (const char byte : segment.substr(symbol.begin, symbol.size)) {
        ids.push_back(tables.byte_ids[static_cast<uint8_t>(byte)]);
      }
    } else if (ids.size() == begin || ids.back() != unk_id) {
      ids.push_back(unk_id);
    }
  }
}

}  // namespace internal

BpeEncoder::BpeEncoder(BpeModel model, size_t cache_bytes)
    : model_(std::move(model)),
      scratch_(std::make_unique<internal::BpeScratch>()),
      cache_(std::make_unique<internal::WordCache>(cache_bytes)) {}
BpeEncoder::BpeEncoder(BpeEncoder&&) noexcept = default;
BpeEncoder& BpeEncoder::operator=(BpeEncoder&&) noexcept = default;
BpeEncoder::~BpeEncoder() = default;

void BpeEncoder::EncodeWord(std::string_view word, std::vector<int32_t>& ids) {
  const internal::BpeTables& tables = *model_.tables_;
  const auto merge = [&] {
    scratch_->segment.assign(internal::kMetaspace);
    scratch_->segment.append(word);
    internal::MergeSegment(tables, scratch_->segment, nullptr, *scratch_);
  };
  if (word.size() > internal::WordCache::kMaxWordBytes) {
    merge();
    internal::AppendIds(tables, scratch_->segment, *scratch_, ids.size(), ids);
    return;
  }
  uint64_t& packed = cache_->Lookup(word);
  if (packed == 0) {
    merge();
    const size_t begin = ids.size();
    internal::AppendIds(tables, scratch_->segment, *scratch_, begin, ids);
    cache_->Store(std::span(ids).subspan(begin), packed);
    return;
  }
  const std::span<const int32_t> cached = cache_->Ids(packed);
  ids.insert(ids.end(), cached.begin(), cached.end());
}

void BpeEncoder::Encode(std::string_view line, std::vector<int32_t>& ids) {
  const internal::BpeTables& tables = *model_.tables_;
  if (!tables.words_are_independent) {
    const std::vector<int32_t> encoded = model_.Encode(line);
    ids.insert(ids.end(), encoded.begin(), encoded.end());
    return;
  }
  internal::ForEachWord(line, scratch_->line,
                        [&](std::string_view word) { EncodeWord(word, ids); });
}

BpeBatchEncoder::BpeBatchEncoder(const BpeModel& model, int num_threads) {
  const int count = num_threads > 0 ? num_threads : NumThreads();
  for (int i = 0; i < count; ++i) encoders_.emplace_back(model);
}

EncodedLines BpeBatchEncoder::Encode(std::span<const std::string> lines) {
  return internal::EncodeLinesInParts(encoders_.size(), lines.size(),
                                      [&](size_t part, size_t line, std::vector<int32_t>& ids) {
                                        encoders_[part].Encode(lines[line], ids);
                                      });
}

EncodedLines EncodeLines(const BpeModel& model, std::span<const std::string> lines,
                         int num_threads) {
  return BpeBatchEncoder(model, num_threads).Encode(lines);
}

}  // namespace dtrain
