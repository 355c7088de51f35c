// merges_files.h - byte-level BPE of folders without a tokenizer.json: vocab.json and merges.txt.
// SPDX-License-Identifier: Apache-2.0
//
// RobertaTokenizer of transformers wrote such folders, and reads them. Three more files may say
// which texts are tokens as a whole:
// - tokenizer_config.json: {"mask_token": ..., "added_tokens_decoder": {id: token}}
// - special_tokens_map.json: {"mask_token": ...}
// - added_tokens.json: {token: id}
// The last two are older. They count only without an added_tokens_decoder.
#ifndef DTRAIN_TOKENIZERS_INTERNAL_MERGES_FILES_H_
#define DTRAIN_TOKENIZERS_INTERNAL_MERGES_FILES_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/internal/tokenizer_file.h"

namespace dtrain::internal {

inline constexpr char kPiecesFile[] = "vocab.json";
inline constexpr char kMergesFile[] = "merges.txt";
inline constexpr char kSettingsFile[] = "tokenizer_config.json";
inline constexpr char kSpecialTokensFile[] = "special_tokens_map.json";
inline constexpr char kAddedTokensFile[] = "added_tokens.json";

// The texts of the files; "" for a file that is not there.
struct MergesFiles {
  std::string folder;  // for messages
  std::string pieces = {};
  std::string merges = {};
  std::string settings = {};
  std::string special_tokens = {};
  std::string added_tokens = {};
};

// Whether `path` is named like a vocabulary with a merges.txt beside it.
bool IsMergesVocabulary(const std::string& path);

// Reads the files beside the vocab.json `path`. Returns DataError if that or merges.txt cannot be
// read.
StatusOr<MergesFiles> ReadMergesFiles(const std::string& path);

// The tokenizer.json that would give the same ids. Returns DataError, which names the file: it is
// cut, two pieces have one id or an id has no piece, a merge's pieces or their join are missing, an
// added token has another id than transformers would give it, or the tokenizer is of another class.
StatusOr<TokenizerFile> ConvertMergesFiles(const MergesFiles& files);

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_MERGES_FILES_H_
