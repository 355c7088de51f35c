// unigram.h - Unigram tokenizers: XLM-R's tokenizer.json, and SentencePiece's files.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const UnigramTokenizer tokenizer,
//                       UnigramTokenizer::Load("xlm-roberta-base/tokenizer.json"));
//   UnigramEncoder encoder(tokenizer);
//   std::vector<int32_t> ids, types;
//   encoder.EncodeRow("Ein Mann spielt.", "Er schläft.", 128, ids, types);
//
// A text is normalised by rules of the file, spaces become U+2581, and of all ways to cut it into
// pieces the most likely one is taken (Kudo 2018). From a tokenizer.json ids are those of Hugging
// Face's `tokenizers`, from a source.spm those of SentencePiece. The two differ: `tokenizers` cuts
// word by word, and has other rules for marks on letters. Invalid UTF-8 becomes U+FFFD.
#ifndef DTRAIN_TOKENIZERS_UNIGRAM_H_
#define DTRAIN_TOKENIZERS_UNIGRAM_H_

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
struct RowPart;
struct UnigramTables;
struct UnigramCaches;
}  // namespace internal

struct TokenSpan;

// Immutable, and safe to share between threads. Copies share their tables.
class UnigramTokenizer {
 public:
  // Reads a tokenizer.json, or else SentencePiece's own file (.spm, .model). Returns DataError,
  // which names the field: the model is no Unigram model, a part is not known (its ids would differ
  // from the model's), the rules of normalisation are cut, a piece occurs twice, an id lies beyond
  // the vocabulary.
  static StatusOr<UnigramTokenizer> Load(const std::string& path);
  // The same from the files' bytes; `name` is for messages.
  static StatusOr<UnigramTokenizer> FromJson(std::string_view text, const std::string& name);
  static StatusOr<UnigramTokenizer> FromModelProto(std::string_view bytes, const std::string& name);

  // Appends the ids of `text` (valid UTF-8) by the rules of a tokenizer.json, and the place of each
  // token in it, without the space in front of a word. Where rules of normalisation changed the
  // text, the place is that of the characters that became the token. Begins and ends never
  // decrease. Special tokens are text here.
  void EncodeWithSpans(std::string_view text, std::vector<int32_t>& ids,
                       std::vector<TokenSpan>& spans) const;

  // The text that ids stand for. Special tokens of a tokenizer.json become their text, those of
  // SentencePiece nothing, and its unknown piece " \u2047 ". Each id is in [0, vocab_size()).
  std::string Decode(std::span<const int32_t> ids) const;
  // The same from pieces as EncodePieces() writes them. One that is not in the vocabulary stands
  // for its own text.
  std::string DecodePieces(std::span<const std::string> pieces) const;

  // The piece as the vocabulary writes it: "▁Mann". Valid as long as any copy exists.
  std::string_view Piece(int32_t id) const;
  // Returns -1 if there is no such piece.
  int32_t IdOf(std::string_view piece) const;
  // One more than the largest id.
  int32_t vocab_size() const;
  // The id of what is no piece.
  int32_t unk_id() const;
  // A hash of the file, the same on every machine.
  uint64_t Hash() const;

 private:
  friend class TextTokenizer;
  friend class UnigramEncoder;
  explicit UnigramTokenizer(std::shared_ptr<const internal::UnigramTables> tables);
  // The parts of the row of one text, or of two.
  const std::vector<internal::RowPart>& row(bool of_pair) const;

  std::shared_ptr<const internal::UnigramTables> tables_;
};

// Encodes many texts on one thread. It caches the words it has seen, up to a memory limit.
class UnigramEncoder {
 public:
  // Unless match_special_tokens, special tokens such as <mask> are text wherever a text has them.
  explicit UnigramEncoder(UnigramTokenizer tokenizer, size_t cache_bytes = size_t{4} << 20,
                          bool match_special_tokens = true);
  UnigramEncoder(UnigramEncoder&&) noexcept;
  UnigramEncoder& operator=(UnigramEncoder&&) noexcept;
  ~UnigramEncoder();

  // Appends the ids of `text`, without those that begin and end a row. The text must be shorter
  // than 2 GiB.
  void Encode(std::string_view text, std::vector<int32_t>& ids);

  // Appends the pieces of `text`. What is unknown is shown as its own text, so that the pieces can
  // be looked up in another vocabulary, as Marian's models want it.
  void EncodePieces(std::string_view text, std::vector<std::string>& pieces);
  // The same with their ids.
  void EncodePieces(std::string_view text, std::vector<int32_t>& ids,
                    std::vector<std::string>& pieces);

  // Overwrites both with a row as the model was trained on it, such as <s> first </s></s> second
  // </s>, and its token types. A row of more than max_length ids loses tokens at the end of its
  // texts, the longer text first; 0 means no limit. max_length must have room for the special
  // tokens. From SentencePiece's file a row has none.
  void EncodeRow(std::string_view first, std::optional<std::string_view> second, int max_length,
                 std::vector<int32_t>& ids, std::vector<int32_t>& types);

 private:
  // Pieces are written only where `pieces` is not null.
  void EncodeInto(std::string_view text, std::vector<int32_t>& ids,
                  std::vector<std::string>* pieces);

  UnigramTokenizer tokenizer_;
  bool match_special_tokens_;
  std::unique_ptr<internal::UnigramCaches> caches_;
};

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_UNIGRAM_H_
