// bpe_tables.h - a BPE model compiled for encoding, and the merging of one segment of text.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_BPE_TABLES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_BPE_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/bpe.h"
#include "dtrain/tokenizers/internal/pair_merging.h"
#include "dtrain/tokenizers/internal/piece_trie.h"

namespace dtrain::internal {

// A symbol is the id of a normal or user-defined piece. Numbers from pieces.size() on are
// characters that occur in pieces but are not pieces themselves, which happens only in models of
// others. Such a symbol can merge, but alone it is unknown.
struct BpeTables {
  BpeVocabulary vocabulary;
  std::vector<int32_t> symbol_of_code_point;  // kNoSymbol for code points beyond its end
  PairTable pairs{0};
  std::array<int32_t, 256> byte_ids{};
  std::optional<PieceTrie> user_defined;  // absent if there is no such piece
  // True if U+2581 is a piece and occurs only at the beginning of pieces, so that words can be
  // encoded one by one. False only in models of others.
  bool words_are_independent = true;
  uint64_t hash = 0;

  bool is_known(int32_t symbol) const {
    return symbol >= 0 && static_cast<size_t>(symbol) < vocabulary.pieces.size();
  }
};

struct BpeScratch : MergeScratch {
  std::string segment;
  std::string line;
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
