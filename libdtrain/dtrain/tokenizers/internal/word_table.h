// word_table.h - a hash table from byte strings to 64-bit numbers, with all keys in one arena.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_WORD_TABLE_H_
#define DTRAIN_TOKENIZERS_INTERNAL_WORD_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::internal {

// May change between versions: never store it in a file.
uint64_t HashBytes(std::string_view bytes);

class WordTable {
 public:
  WordTable() { Clear(); }

  // Returns the number of `word`, which is 0 if it is new. Valid until the next call.
  uint64_t& FindOrInsert(std::string_view word);

  size_t size() const { return entries_.size(); }
  std::string_view word(size_t i) const {
    return std::string_view(arena_).substr(entries_[i].offset, entries_[i].size);
  }
  uint64_t value(size_t i) const { return entries_[i].value; }

  // Memory used by keys and table, in bytes.
  size_t bytes() const {
    return arena_.size() + entries_.size() * sizeof(Entry) + slots_.size() * sizeof(Slot);
  }
  void Clear();

 private:
  struct Entry {
    uint64_t offset;
    uint64_t hash;
    uint64_t value;
    uint32_t size;
  };
  // The tag avoids most accesses to the entries, which are elsewhere in memory.
  struct Slot {
    uint32_t tag;
    uint32_t index;  // index of the entry + 1; 0 if the slot is free
  };
  void Grow();

  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // the size is a power of two
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORD_TABLE_H_
