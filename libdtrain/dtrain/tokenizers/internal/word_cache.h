// word_cache.h - a cache from words to their ids, cleared when it is full.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_WORD_CACHE_H_
#define DTRAIN_TOKENIZERS_INTERNAL_WORD_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/internal/word_table.h"

namespace dtrain::internal {

// When it is full it is cleared; frequent words return quickly.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 255;

  explicit WordCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns 0 for a new word, which the caller must then encode and pass to Store().
  uint64_t& Lookup(std::string_view word) {
    if (words_.bytes() + ids_.size() * sizeof(int32_t) > max_bytes_) {
      words_.Clear();
      ids_.clear();
    }
    return words_.FindOrInsert(word);
  }
  void Store(std::span<const int32_t> ids, uint64_t& packed) {
    // The number of a word must not be 0, also not that of a first word without ids.
    if (ids_.empty()) ids_.push_back(0);
    packed = static_cast<uint64_t>(ids_.size()) << kCountBits | ids.size();
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }
  std::span<const int32_t> Ids(uint64_t packed) const {
    return std::span(ids_).subspan(packed >> kCountBits, packed & ((1u << kCountBits) - 1));
  }

 private:
  // A word has at most as many ids as bytes, including the three bytes of U+2581.
  static constexpr int kCountBits = 9;

  size_t max_bytes_;
  WordTable words_;
  std::vector<int32_t> ids_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORD_CACHE_H_
