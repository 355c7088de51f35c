// word_table.cc - open addressing with linear probing, at most half full.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/word_table.h"

#include <cstring>

#include "dtrain/base/check.h"

namespace dtrain::internal {
namespace {

constexpr size_t kFirstSlots = 1024;

template <typename T>
T LoadAs(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

// Both halves of the product depend on all bits of x.
uint64_t Mix(uint64_t x) {
  const unsigned __int128 product = static_cast<unsigned __int128>(x) * 0x9E3779B97F4A7C15u;
  return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
}

}  // namespace

uint64_t HashBytes(std::string_view bytes) {
  const char* p = bytes.data();
  const size_t n = bytes.size();
  uint64_t hash = n * 0xD6E8FEB86659FD93u + 0x2545F4914F6CDD1Du;
  // The last load overlaps the previous one, which avoids a loop over single bytes.
  if (n >= 8) {
    for (size_t i = 0; i + 8 < n; i += 8) hash = Mix(hash ^ LoadAs<uint64_t>(p + i));
    return Mix(hash ^ LoadAs<uint64_t>(p + n - 8));
  }
  if (n >= 4) {
    const uint64_t low = LoadAs<uint32_t>(p);
    return Mix(hash ^ (low << 32 | LoadAs<uint32_t>(p + n - 4)));
  }
  uint64_t tail = 0;
  for (size_t i = 0; i < n; ++i) tail = tail << 8 | static_cast<uint8_t>(p[i]);
  return Mix(hash ^ tail);
}

void WordTable::Clear() {
  arena_.clear();
  entries_.clear();
  slots_.assign(kFirstSlots, Slot{0, 0});
}

uint64_t& WordTable::FindOrInsert(std::string_view word) {
  const uint64_t hash = HashBytes(word);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  for (; slots_[slot].index != 0; slot = (slot + 1) & mask) {
    if (slots_[slot].tag != tag) continue;
    Entry& entry = entries_[slots_[slot].index - 1];
    if (entry.size == word.size() &&
        std::memcmp(arena_.data() + entry.offset, word.data(), word.size()) == 0) {
      return entry.value;
    }
  }
  DT_CHECK_LT(entries_.size(), size_t{UINT32_MAX} - 1) << "too many distinct words";
  entries_.push_back({arena_.size(), hash, 0, static_cast<uint32_t>(word.size())});
  arena_.append(word);
  slots_[slot] = {tag, static_cast<uint32_t>(entries_.size())};
  if (entries_.size() * 2 > slots_.size()) Grow();
  return entries_.back().value;
}

void WordTable::Grow() {
  slots_.assign(slots_.size() * 4, Slot{0, 0});
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t slot = entries_[i].hash & mask;
    while (slots_[slot].index != 0) slot = (slot + 1) & mask;
    slots_[slot] = {static_cast<uint32_t>(entries_[i].hash >> 32), static_cast<uint32_t>(i + 1)};
  }
}

}  // namespace dtrain::internal
