// pair_merging.h - the inner loop of BPE: neighbouring symbols merge in the order of their ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_PAIR_MERGING_H_
#define DTRAIN_TOKENIZERS_INTERNAL_PAIR_MERGING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dtrain/base/random.h"

namespace dtrain::internal {

inline constexpr int32_t kNoSymbol = -1;

// Maps two neighbouring symbols to the piece they merge into.
class PairTable {
 public:
  struct Slot {
    uint64_t key;
    int32_t merged;  // kNoSymbol if the slot is free
    uint32_t rank;   // the lowest rank merges first; pieces with equal scores share a rank
  };

  explicit PairTable(size_t capacity);
  void Insert(int32_t left, int32_t right, int32_t merged, uint32_t rank);
  // Returns nullptr if the two symbols do not merge.
  const Slot* Find(int32_t left, int32_t right) const;

 private:
  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t First(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }

  std::vector<Slot> slots_;  // the size is a power of two; at most half full
  int shift_ = 0;
};

// The symbols of a segment of text as a linked list that starts at index 0, and merges to come.
struct MergeScratch {
  struct Symbol {
    int32_t symbol;
    int32_t previous;
    int32_t next;
    uint32_t begin;
    uint32_t size;  // in bytes; 0 after it was merged into its left neighbour
  };
  struct Candidate {
    uint32_t rank;
    int32_t left;  // index of the left symbol
    uint32_t size;
    int32_t merged;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

// Draws the merges to drop. Pass null to drop none.
struct MergeDropout {
  float probability = 0.0f;
  RandomStream stream;
};

// Merges the symbols of the scratch memory: the lowest rank first, of equal ranks the leftmost, as
// SentencePiece and tokenizers do.
void MergeSymbols(const PairTable& pairs, MergeDropout* dropout, MergeScratch& scratch);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_PAIR_MERGING_H_
