// text_tokenizer.h - the tokenizer of an encoder: WordPiece, byte-level BPE or Unigram.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const TextTokenizer tokenizer,
//                       TextTokenizer::Load("model/tokenizer.json"));
//   TextBatchEncoder encoder(tokenizer);
//   const std::vector<std::string_view> first = {"A man plays."}, second = {"He sleeps."};
//   const EncodedTexts rows = encoder.Encode(first, second, {.max_length = 128});
#ifndef DTRAIN_TOKENIZERS_TEXT_TOKENIZER_H_
#define DTRAIN_TOKENIZERS_TEXT_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/encoded_texts.h"
#include "dtrain/tokenizers/wordpiece.h"

namespace dtrain {

namespace internal {
struct TokenizerKind;
struct TextEncoders;
}  // namespace internal

// The special tokens of a row. A row of one text is: before, text, after. A row of a pair is:
// before, text, between, text, after.
struct RowForm {
  std::vector<int32_t> before;   // [CLS]
  std::vector<int32_t> between;  // [SEP]; in RoBERTa two of them
  std::vector<int32_t> after;    // [SEP]
  bool second_has_type1 = true;  // in a pair the second text, and what follows it, has type 1

  int32_t single_size() const { return static_cast<int32_t>(before.size() + after.size()); }
  int32_t pair_size() const { return single_size() + static_cast<int32_t>(between.size()); }
};

// Immutable, and safe to share between threads. Copies share their tables.
class TextTokenizer {
 public:
  // Reads a vocab.txt (WordPiece), a tokenizer.json whose model is WordPiece, byte-level BPE or
  // Unigram, or a vocab.json with a merges.txt beside it (byte-level BPE). `options` are for
  // WordPiece; for the other kinds only match_special_tokens counts. Returns the errors of
  // WordPieceTokenizer::Load(), ByteBpeTokenizer::Load() and UnigramTokenizer::FromJson(). Returns
  // DataError for a tokenizer.json with a model of another type, or without the special tokens that
  // rows begin and end with.
  static StatusOr<TextTokenizer> Load(const std::string& path,
                                      const WordPieceOptions& options = {});
  TextTokenizer(WordPieceTokenizer tokenizer);  // NOLINT: implicit
  // The WordPiece tokenizer, or null if this one is of another kind.
  const WordPieceTokenizer* word_piece() const;

  // "WordPiece", "byte-level BPE" or "Unigram".
  std::string_view kind() const;

  // Appends the ids of `text` and the place of each token in it. "[MASK]" and other special tokens
  // in `text` are taken as plain text.
  void EncodeWithSpans(std::string_view text, std::vector<int32_t>& ids,
                       std::vector<TokenSpan>& spans) const;
  // Appends the ids of a word of a sentence, as if a space stood before it. Special tokens are
  // taken as plain text.
  void EncodeWord(std::string_view word, std::vector<int32_t>& ids) const;

  // The ids as text, for messages.
  std::string Decode(std::span<const int32_t> ids) const;
  // Valid as long as any copy of the tokenizer exists.
  std::string_view Piece(int32_t id) const;
  // Whether the piece belongs to the same word as the piece before it.
  bool ContinuesWord(int32_t id) const;
  int32_t vocab_size() const;

  const RowForm& row() const { return *row_; }
  int32_t cls_id() const { return row_->before.front(); }
  int32_t sep_id() const { return row_->after.back(); }
  int32_t unk_id() const { return unk_id_; }    // -1 if it has none
  int32_t mask_id() const { return mask_id_; }  // -1 if it has none
  int32_t pad_id() const { return pad_id_; }    // -1 if it has none
  bool matches_special_tokens() const { return matches_special_tokens_; }

  // A hash of all that decides the ids of a text, the same on every machine. Tokenizers of equal
  // hashes give equal ids.
  uint64_t Hash() const;

 private:
  friend class TextBatchEncoder;
  TextTokenizer() = default;
  // match_special_tokens: "<mask>" in a text is the special token.
  template <typename Tokenizer>
  static StatusOr<TextTokenizer> Make(const Tokenizer& tokenizer, const std::string& name,
                                      bool match_special_tokens);

  std::shared_ptr<const internal::TokenizerKind> kind_;
  std::shared_ptr<const RowForm> row_;
  int32_t unk_id_ = -1;
  int32_t mask_id_ = -1;
  int32_t pad_id_ = -1;
  bool matches_special_tokens_ = true;
};

// Whether the file is for WordPiece. False for a tokenizer.json whose model is of another type and
// for a vocab.json, true for any other file. Returns DataError if a tokenizer.json cannot be read.
StatusOr<bool> HoldsWordPiece(const std::string& path);

// How texts become rows, for all kinds of tokenizer.
using TextRowOptions = WordPieceRowOptions;

// One encoder per thread, kept from batch to batch so that their caches stay useful.
class TextBatchEncoder {
 public:
  // num_threads = 0 means NumThreads().
  explicit TextBatchEncoder(const TextTokenizer& tokenizer, int num_threads = 0);
  ~TextBatchEncoder();

  // Encodes one row for each text of `first`. `second` must be empty or have as many texts. The
  // result does not depend on the number of threads.
  EncodedTexts Encode(std::span<const std::string_view> first,
                      std::span<const std::string_view> second, const TextRowOptions& options);
  EncodedTexts Encode(std::span<const std::string_view> first, const TextRowOptions& options = {}) {
    return Encode(first, {}, options);
  }

 private:
  std::unique_ptr<internal::TextEncoders> encoders_;
};

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_TEXT_TOKENIZER_H_
