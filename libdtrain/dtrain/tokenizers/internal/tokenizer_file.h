// tokenizer_file.h - the parts of a tokenizer.json that all kinds of tokenizers share.
// SPDX-License-Identifier: Apache-2.0
//
// Hugging Face's library `tokenizers` writes the file: {added_tokens, normalizer, pre_tokenizer,
// post_processor, decoder, model}. A part that a reader does not know is refused by its name, since
// ids would silently differ from those the model was trained with.
#ifndef DTRAIN_TOKENIZERS_INTERNAL_TOKENIZER_FILE_H_
#define DTRAIN_TOKENIZERS_INTERNAL_TOKENIZER_FILE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// A text that is one token wherever it occurs.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // only between characters that belong to no word
  bool strips_left = false;  // takes the white space in front of it along
  bool strips_right = false;
  bool is_special = false;     // belongs to the model's input, not to texts
  bool is_normalized = false;  // is searched for in the normalised text
};

// A part of a row of ids: a special token, or all tokens of a text.
struct RowPart {
  int32_t special_id = -1;  // -1 for a text
  int text = 0;             // 0 for the first one, 1 for the second one
  int type = 0;             // token type of the part's tokens
};

struct TokenizerFile {
  std::string name;  // for messages
  std::vector<AddedToken> added_tokens;
  nlohmann::json normalizer;
  nlohmann::json pre_tokenizer;
  nlohmann::json model;
  // The row of one text, and that of two. Without a post-processor: the texts alone.
  std::vector<RowPart> single;
  std::vector<RowPart> pair;
};

// Reads the text of a tokenizer.json. Returns DataError with `name` and the field that is missing,
// of another type or unknown.
StatusOr<TokenizerFile> ParseTokenizerFile(std::string_view text, const std::string& name);

// A field of a JSON object; null if it has none of that name, or is no object.
const nlohmann::json& FieldOf(const nlohmann::json& object, const char* key);

// The type that a part names; "" for null.
std::string TypeOf(const nlohmann::json& part);

// The pieces of a vocabulary {piece: id} in the order of their ids. Ids that only added tokens have
// stay empty. Returns DataError for an id that is used twice, or far beyond the number of pieces.
StatusOr<std::vector<std::string>> PiecesOf(const nlohmann::json& vocabulary,
                                            const TokenizerFile& file);

// Returns DataError for an id of an added token that lies far beyond a vocabulary of so many
// pieces, and for one of the post-processor that neither has.
Status CheckIds(const TokenizerFile& file, size_t vocabulary_size);

// Sets or appends the pieces that added tokens are. CheckIds() must have accepted them.
void AddSpecialPieces(const TokenizerFile& file, std::vector<std::string>& pieces);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_TOKENIZER_FILE_H_
