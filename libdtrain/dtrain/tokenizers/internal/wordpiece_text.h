// wordpiece_text.h - encodes whole texts on one thread: fast where they are ASCII.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TEXT_H_
#define DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/internal/wordpiece_cache.h"
#include "dtrain/tokenizers/internal/wordpiece_tables.h"
#include "dtrain/tokenizers/internal/wordpiece_words.h"

namespace dtrain::internal {

class WordPieceTextEncoder {
 public:
  // `tables` outlive this object.
  WordPieceTextEncoder(const WordPieceTables& tables, size_t cache_bytes)
      : tables_(tables), cache_(cache_bytes) {}

  // Appends the ids of `text`, without [CLS] and [SEP].
  void Encode(std::string_view text, std::vector<int32_t>& ids);

 private:
  // Without a look for special tokens.
  void EncodePlain(std::string_view text, std::vector<int32_t>& ids);

  // What stands between spaces at `p`, in padded_; moves `p` behind it. Ids go to `out`; returns
  // where they end, at most one for each byte. The kSlack places after that are scratch.
  int32_t* EncodeChunk(const char*& p, int32_t* out);
  int32_t* EncodeAsciiWord(const char* word, size_t size, int32_t* out);
  int32_t* EncodeUnicodeChunk(const char* chunk, size_t size, int32_t* out);
  // By way of the cache; encode() leaves the ids in new_ids_.
  template <typename Body>
  int32_t* Remember(const char* word, size_t size, int32_t* out, const Body& encode);

  const WordPieceTables& tables_;
  WordPieceCache cache_;
  std::string padded_;  // the text and some spaces, so that words can be read by 16 bytes
  std::string lowered_;
  WordList words_;
  std::vector<int32_t> new_ids_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TEXT_H_
