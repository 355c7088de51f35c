// byte_bpe.h - byte-level BPE, the tokenizer of RoBERTa, ModernBERT and GPT-2: ids of `tokenizers`.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const ByteBpeTokenizer tokenizer,
//                       ByteBpeTokenizer::Load("roberta-base/tokenizer.json"));
//   ByteBpeEncoder encoder(tokenizer);
//   std::vector<int32_t> ids, types;
//   encoder.EncodeRow("A man plays.", "He sleeps.", 128, ids, types);
//
// A text is cut at added tokens such as <mask>, normalised (NFC) if the model wants it, and split
// into words by GPT-2's pattern: a word keeps the space in front of it. The bytes of a word then
// merge pair by pair, the merge that was learned first going first (Radford et al. 2019). Every
// byte is a piece, so nothing is unknown. Invalid UTF-8 becomes U+FFFD.
#ifndef DTRAIN_TOKENIZERS_BYTE_BPE_H_
#define DTRAIN_TOKENIZERS_BYTE_BPE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

namespace internal {
struct ByteBpeTables;
struct ByteBpeScratch;
struct MergesFiles;
struct RowPart;
struct TokenizerFile;
}  // namespace internal

struct TokenSpan;

// Immutable, and safe to share between threads. Copies share their tables.
class ByteBpeTokenizer {
 public:
  // Reads a tokenizer.json, or a vocab.json with the merges.txt and the settings beside it. Returns
  // DataError, which names the field: the model is no byte-level BPE, a part is not known (its ids
  // would differ from the model's), a merge has no piece, two pieces have one id, an id lies beyond
  // the vocabulary.
  static StatusOr<ByteBpeTokenizer> Load(const std::string& path);
  // The same from a tokenizer.json's text; `name` is for messages.
  static StatusOr<ByteBpeTokenizer> FromJson(std::string_view text, const std::string& name);
  // The same from the texts of a vocab.json and of the files beside it.
  static StatusOr<ByteBpeTokenizer> FromMerges(const internal::MergesFiles& files);

  // Appends the ids of `text` (valid UTF-8) and the place of each token in it, without the space in
  // front of a word (nothing of a token of white space). A token that is a part of a character has
  // the whole character's place; where characters were composed, it has that of all of them.
  // Special tokens such as <mask> are text here.
  void EncodeWithSpans(std::string_view text, std::vector<int32_t>& ids,
                       std::vector<TokenSpan>& spans) const;

  // The bytes that ids stand for; added tokens as their text. Each id is in [0, vocab_size()).
  std::string Decode(std::span<const int32_t> ids) const;

  // The piece as the vocabulary writes it: "Ġman". Valid as long as any copy exists.
  std::string_view Piece(int32_t id) const;
  // Returns -1 if there is no such piece.
  int32_t IdOf(std::string_view piece) const;
  // One more than the largest id.
  int32_t vocab_size() const;
  // The piece of bytes that are no pieces; -1 if they are left out.
  int32_t unk_id() const;
  // A hash of what decides ids, the same on every machine.
  uint64_t Hash() const;

 private:
  friend class ByteBpeEncoder;
  friend class TextTokenizer;
  explicit ByteBpeTokenizer(std::shared_ptr<const internal::ByteBpeTables> tables);
  static StatusOr<ByteBpeTokenizer> FromFile(const internal::TokenizerFile& file, uint64_t hash);
  // The parts of the row of one text, or of two.
  const std::vector<internal::RowPart>& row(bool of_pair) const;

  std::shared_ptr<const internal::ByteBpeTables> tables_;
};

// Encodes many texts on one thread. It caches the words it has seen, up to a memory limit.
class ByteBpeEncoder {
 public:
  // Unless match_special_tokens, special tokens such as <mask> are text wherever a text has them.
  explicit ByteBpeEncoder(ByteBpeTokenizer tokenizer, size_t cache_bytes = size_t{4} << 20,
                          bool match_special_tokens = true);
  ByteBpeEncoder(ByteBpeEncoder&&) noexcept;
  ByteBpeEncoder& operator=(ByteBpeEncoder&&) noexcept;
  ~ByteBpeEncoder();

  // Appends the ids of `text`, without those that begin and end a row. The text must be shorter
  // than 2 GiB.
  void Encode(std::string_view text, std::vector<int32_t>& ids);

  // Overwrites both with a row as the model was trained on it, such as <s> first </s></s> second
  // </s>, and its token types. A row of more than max_length ids loses tokens at the end of its
  // texts, the longer text first; 0 means no limit. max_length must have room for the special
  // tokens.
  void EncodeRow(std::string_view first, std::optional<std::string_view> second, int max_length,
                 std::vector<int32_t>& ids, std::vector<int32_t>& types);

 private:
  void EncodeWords(std::string_view part, std::vector<int32_t>& ids);
  void EncodeWord(std::string_view word, std::vector<int32_t>& ids);
  void MergeWord(std::string_view word, std::vector<int32_t>& ids);

  ByteBpeTokenizer tokenizer_;
  bool match_special_tokens_;
  std::unique_ptr<internal::ByteBpeScratch> scratch_;
};

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_BYTE_BPE_H_
