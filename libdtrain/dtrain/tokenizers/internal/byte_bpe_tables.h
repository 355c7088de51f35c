// byte_bpe_tables.h - a byte-level BPE model as encoders read it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_BYTE_BPE_TABLES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_BYTE_BPE_TABLES_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dtrain/tokenizers/internal/added_tokens.h"
#include "dtrain/tokenizers/internal/pair_merging.h"
#include "dtrain/tokenizers/internal/tokenizer_file.h"

namespace dtrain::internal {

struct ByteBpeTables {
  std::vector<std::string> pieces;  // by id, as the vocabulary writes them
  std::vector<std::string> texts;   // by id, the bytes that they stand for
  std::unordered_map<std::string_view, int32_t> id_of;
  std::array<int32_t, 256> byte_ids{};  // kNoSymbol for a byte that is no piece
  std::unordered_map<std::string_view, int32_t> id_of_text;  // only where merges may be ignored
  PairTable merges{0};
  AddedTokens added_tokens;
  std::vector<RowPart> single;
  std::vector<RowPart> pair;
  int32_t unk_id = kNoSymbol;
  bool composes = false;     // NFC
  bool adds_space = false;   // in front of a part that has none
  bool splits_words = true;  // by GPT-2's pattern
  bool ignores_merges = false;
  uint64_t hash = 0;
};

// Divides a word into pieces: `scratch` gets its symbols, linked from index 0.
void MergeWord(const ByteBpeTables& tables, std::string_view word, MergeScratch& scratch);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_BYTE_BPE_TABLES_H_
