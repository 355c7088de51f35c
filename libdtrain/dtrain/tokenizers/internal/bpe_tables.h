// bpe_tables.h - a BPE model compiled for encoding, and the merging of one segment of text.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_BPE_TABLES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_BPE_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tokenizers/bpe.h"

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

// A symbol is the id of a normal piece. Numbers from pieces.size() on are characters that occur in
// pieces but are not pieces themselves, which happens only in models of others. Such a symbol can
// merge, but alone it is unknown.
struct BpeTables {
  BpeVocabulary vocabulary;
  std::vector<int32_t> symbol_of_code_point;  // kNoSymbol for code points beyond its end
  PairTable pairs{0};
  std::array<int32_t, 256> byte_ids{};
  // True if U+2581 is a piece and occurs only at the beginning of pieces, so that words can be
  // encoded one by one. False only in models of others.
  bool words_are_independent = true;
  uint64_t hash = 0;

  bool is_known(int32_t symbol) const {
    return symbol >= 0 && static_cast<size_t>(symbol) < vocabulary.pieces.size();
  }
};

struct BpeScratch {
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
  std::string segment;
  std::string line;
};

// Draws the merges to drop. Pass null to drop none.
struct MergeDropout {
  float probability = 0.0f;
  RandomStream stream;
};

// Splits `segment` (valid UTF-8, not empty) into symbols: a linked list in scratch.symbols,
// starting at index 0.
void MergeSegment(const BpeTables& tables, std::string_view segment, MergeDropout* dropout,
                  BpeScratch& scratch);

// Appends the ids of the merged segment. A run of unknown symbols becomes one <unk>, even if it
// began in an earlier segment, whose ids are those from `begin` on.
void AppendIds(const BpeTables& tables, std::string_view segment, const BpeScratch& scratch,
               size_t begin, std::vector<int32_t>& ids);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_BPE_TABLES_H_
