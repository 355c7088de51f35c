// wordpiece_cache.h - a cache of the ids of short words, in a fixed amount of memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_CACHE_H_
#define DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_CACHE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "dtrain/data/internal/hash.h"

namespace dtrain::internal {

// Up to 15 bytes of text as two numbers.
struct ShortWord {
  static constexpr size_t kMaxBytes = 15;

  // Uses the first `size` of 16 bytes; 1 <= size <= kMaxBytes.
  ShortWord(uint64_t low, uint64_t high, size_t size) {
    const uint64_t low_mask = size >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1;
    const uint64_t high_mask = size > 8 ? (uint64_t{1} << (8 * (size - 8))) - 1 : 0;
    parts[0] = low & low_mask;
    // The size distinguishes words that end with NUL bytes, and words from free entries.
    parts[1] = (high & high_mask) | static_cast<uint64_t>(size) << 56;
  }

  uint64_t parts[2];
};

// Sets of two entries, the newer word first. A new word replaces the older one of its set.
class WordPieceCache {
 public:
  static constexpr size_t kMaxIds = 3;

  struct Entry {
    uint64_t parts[2] = {};
    int32_t ids[kMaxIds] = {};
    uint32_t count = 0;
  };

  // Uses the largest power of two of sets that fits `max_bytes`, at least one.
  explicit WordPieceCache(size_t max_bytes)
      : sets_(std::bit_floor(std::max<size_t>(max_bytes / sizeof(Set), 1))),
        mask_(sets_.size() - 1) {}

  // Returns nullptr if the word is not in the cache. Valid until the next Store().
  const Entry* Find(const ShortWord& word) const {
    const Set& set = sets_[IndexOf(word)];
    for (const Entry& entry : set.entries) {
      if (entry.parts[0] == word.parts[0] && entry.parts[1] == word.parts[1]) return &entry;
    }
    return nullptr;
  }
  // `ids` has at most kMaxIds elements.
  void Store(const ShortWord& word, std::span<const int32_t> ids) {
    Set& set = sets_[IndexOf(word)];
    set.entries[1] = set.entries[0];
    Entry& entry = set.entries[0];
    std::copy_n(word.parts, 2, entry.parts);
    std::copy(ids.begin(), ids.end(), entry.ids);
    entry.count = static_cast<uint32_t>(ids.size());
  }

 private:
  struct alignas(64) Set {  // one cache line
    Entry entries[2];
  };

  size_t IndexOf(const ShortWord& word) const {
    return static_cast<size_t>(MixHash(word.parts[0], word.parts[1])) & mask_;
  }

  std::vector<Set> sets_;
  size_t mask_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_CACHE_H_
