// unigram_tables.h - a Unigram tokenizer as its file describes it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_TABLES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_TABLES_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/internal/added_tokens.h"
#include "dtrain/tokenizers/internal/sentence_rules.h"
#include "dtrain/tokenizers/internal/text_rules.h"
#include "dtrain/tokenizers/internal/tokenizer_file.h"
#include "dtrain/tokenizers/internal/unigram_model.h"

namespace dtrain::internal {

enum class UnigramPieceKind : uint8_t { kText, kUnknown, kControl, kByte, kUnused };

struct UnigramTables {
  std::vector<std::string> pieces;  // by id, as the file writes them
  std::vector<UnigramPieceKind> kinds;
  std::unordered_map<std::string_view, int32_t> id_of;
  std::array<int32_t, 256> byte_ids{};  // -1 for a byte that is no piece
  bool byte_fallback = false;           // unknown characters become their bytes
  UnigramModel model;
  bool is_sentencepiece = false;

  // SentencePiece has these.
  SentenceRules sentence_rules;
  std::string unk_surface;  // what an unknown piece is decoded to

  // A tokenizer.json has these.
  TextRules text_rules;
  AddedTokens added_tokens;
  std::vector<RowPart> single = {{.text = 0}};
  std::vector<RowPart> pair = {{.text = 0}, {.text = 1, .type = 1}};
  // When a space comes in front of a part that has none: never, at the text's begin, always.
  enum class Prefix : uint8_t { kNever, kFirst, kAlways } prefix = Prefix::kAlways;
  bool splits_spaces = true;       // each U+2581 begins a word of its own
  bool drops_white_space = false;  // Unicode's white space ends parts, and is no part of them
  uint64_t hash = 0;
};

// `name` is the file's, for messages.
StatusOr<UnigramTables> ReadUnigramJson(std::string_view text, const std::string& name);
StatusOr<UnigramTables> ReadUnigramModelProto(std::string_view bytes, const std::string& name);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_TABLES_H_
