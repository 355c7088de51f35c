// wordpiece_cache.h - the ids of short words met before, in a fixed amount of memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_WORDPIECE_CACHE_H_
#define DTRAIN_DATA_INTERNAL_WORDPIECE_CACHE_H_

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

  // `word` has 1 to kMaxBytes bytes, of which `readable` >= size may be read.
  ShortWord(const char* word, size_t size, size_t readable) {
    if (readable >= 16) {
      std::memcpy(parts, word, 16);
    } else {
      std::memcpy(parts, word, size);
    }
    if (size <= 8) {
      parts[0] &= ~uint64_t{0} >> (64 - 8 * size);
      parts[1] = 0;
    } else {
      parts[1] &= ~uint64_t{0} >> (128 - 8 * size);
    }
    // Tells words that end in NUL bytes apart, and any word from a free place.
    parts[1] |= static_cast<uint64_t>(size) << 56;
  }
  bool operator==(const ShortWord&) const = default;

  uint64_t parts[2] = {};
};

// Sets of two places each, the newer word first. No place is ever free again, none is reserved: a
// word pushes the older one of its set out.
class WordPieceCache {
 public:
  static constexpr size_t kMaxIds = 3;

  explicit WordPieceCache(size_t max_bytes) {
    if (max_bytes < sizeof(Set)) return;
    const size_t count = std::bit_floor(max_bytes / sizeof(Set));
    sets_.resize(count);
    mask_ = count - 1;
  }
  bool is_on() const { return !sets_.empty(); }

  // The ids of `word`, none where it is not here. Valid until the next Store().
  std::span<const int32_t> Find(const ShortWord& word) const {
    const Set& set = sets_[IndexOf(word)];
    for (const Entry& entry : set.entries) {
      if (entry.parts[0] == word.parts[0] && entry.parts[1] == word.parts[1]) {
        return {entry.ids, entry.count};
      }
    }
    return {};
  }
  // At most kMaxIds of them, at least one.
  void Store(const ShortWord& word, std::span<const int32_t> ids) {
    Set& set = sets_[IndexOf(word)];
    set.entries[1] = set.entries[0];
    Entry& entry = set.entries[0];
    std::memcpy(entry.parts, word.parts, sizeof(entry.parts));
    std::memcpy(entry.ids, ids.data(), ids.size_bytes());
    entry.count = static_cast<uint32_t>(ids.size());
  }

 private:
  struct Entry {
    uint64_t parts[2] = {};
    int32_t ids[kMaxIds] = {};
    uint32_t count = 0;
  };
  struct alignas(64) Set {  // one cache line
    Entry entries[2];
  };

  size_t IndexOf(const ShortWord& word) const {
    return static_cast<size_t>(MixHash(word.parts[0], word.parts[1])) & mask_;
  }

  std::vector<Set> sets_;  // a power of two, or none
  size_t mask_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_WORDPIECE_CACHE_H_
