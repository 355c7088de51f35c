// wordpiece_text.h - encodes whole texts on one thread, with a fast path for ASCII.
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
  // `tables` must outlive this object.
  WordPieceTextEncoder(const WordPieceTables& tables, size_t cache_bytes)
      : tables_(tables), cache_(cache_bytes) {}

  // Appends the ids of `text`, without [CLS] and [SEP].
  void Encode(std::string_view text, std::vector<int32_t>& ids);

 private:
  // Encode() without looking for special tokens.
  void EncodePlain(std::string_view text, std::vector<int32_t>& ids);

  // Encodes the text up to the next space at `p` in padded_, and moves `p` past it. Writes the ids
  // to `out`, at most one per byte, and returns their end. The kSlack elements after that may be
  // overwritten.
  int32_t* EncodeChunk(const char*& p, int32_t* out);
  int32_t* EncodeAsciiWord(const char* word, size_t size, int32_t* out);
  int32_t* EncodeUnicodeChunk(const char* chunk, size_t size, int32_t* out);
  // Uses the cache. For a new word, encode() must store the ids in new_ids_.
  template <typename Body>
  int32_t* Remember(const char* word, size_t size, int32_t* out, const Body& encode);

  const WordPieceTables& tables_;
  WordPieceCache cache_;
  std::string padded_;  // the text and some spaces, so that words can be read 16 bytes at a time
  std::string lowered_;
  WordList words_;
  std::vector<int32_t> new_ids_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_WORDPIECE_TEXT_H_
