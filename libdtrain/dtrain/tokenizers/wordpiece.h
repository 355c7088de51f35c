// wordpiece.h - BERT's tokenizer: text to the WordPiece ids of Google's or Hugging Face's program.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const WordPieceTokenizer tokenizer,
//                       WordPieceTokenizer::Load("vocab.txt", {.lower_case = true}));
//   WordPieceBatchEncoder encoder(tokenizer);
//   const std::vector<std::string_view> first = {"A man plays."}, second = {"He sleeps."};
//   const EncodedTexts rows = encoder.Encode(first, second, {.max_length = 128});
//
// A text is cleaned, set apart at spaces, CJK characters and punctuation, put to lower case without
// accents (uncased vocabularies), and each word becomes the longest pieces from its left end on; a
// word that cannot be put together so, or is too long, becomes [UNK]. Bytes that are not UTF-8 are
// passed over. No text is an error.
//
// The two behaviours give the same ids for almost every text. Hugging Face's (the Rust library
// `tokenizers`) differs from Google's (tokenization.py) in: special tokens in the text; words of
// 101 to 200 characters; a capital sigma at a word's end; private-use characters, which it drops;
// the first 256 characters of CJK extension E; characters newer than Unicode 8 in some respects;
// which side of a pair loses a token more. Google's is that of Python 3.11, Unicode 14.
#ifndef DTRAIN_TOKENIZERS_WORDPIECE_H_
#define DTRAIN_TOKENIZERS_WORDPIECE_H_

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
struct WordPieceTables;
class WordPieceTextEncoder;
}  // namespace internal

enum class WordPieceBehavior : uint8_t { kGoogle, kHuggingFace };

struct WordPieceOptions {
  WordPieceBehavior behavior = WordPieceBehavior::kGoogle;
  bool lower_case = true;                            // false for cased vocabularies
  std::optional<bool> strip_accents = std::nullopt;  // unset: as lower_case
  bool split_cjk = true;                             // every CJK character is a word
  // Longer words, in characters, are [UNK]; 0 takes Google's 200 or Hugging Face's 100. Up to 1000.
  int max_word_chars = 0;
  // "[SEP]" in a text is the separator, likewise [CLS], [MASK], [PAD] and [UNK]. Unset: only in
  // Hugging Face's behaviour. Whoever wrote the text then controls the model's input.
  std::optional<bool> match_special_tokens = std::nullopt;
};

struct WordPieceRowOptions {
  // Of a whole row, special tokens included, at least 3; 0 is no bound. Of a pair the longer side
  // loses its end first. When both sides lose, the first keeps the odd token (Google), or the one
  // that was longer, of equal ones the second (Hugging Face).
  int max_length = 0;
};

// Where a token stands in its text: bytes [begin, end).
struct TokenSpan {
  int32_t begin = 0;
  int32_t end = 0;
  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};

// Immutable and safe to share between threads; copies share their tables.
class WordPieceTokenizer {
 public:
  // A text file with one piece a line, its number (from 0) the id. DataError names file and line:
  // missing, CR LF, not UTF-8, empty line, a piece twice; or the special token that is not there.
  static StatusOr<WordPieceTokenizer> Load(const std::string& path,
                                           const WordPieceOptions& options = {});
  // The same checks; messages count lines from 1. UsageError for options out of range.
  static StatusOr<WordPieceTokenizer> FromVocabulary(std::vector<std::string> pieces,
                                                     const WordPieceOptions& options = {});

  // Appends the ids of `text`, without [CLS] and [SEP]. For many texts WordPieceEncoder is faster.
  void Encode(std::string_view text, std::vector<int32_t>& ids) const;
  std::vector<int32_t> Encode(std::string_view text) const;
  // Appends the ids, and for each of them where in `text` it stands: from the first to the last of
  // the characters that its own were made of, of [UNK] the whole word. Characters that make none (a
  // combining accent that is stripped, a control character) belong to a token only inside it.
  // Begins and ends never go back; the pieces of one character (a Hangul syllable) share its bytes.
  // Special tokens are text here, whatever the options say. Below 2 GiB of text.
  void EncodeWithSpans(std::string_view text, std::vector<int32_t>& ids,
                       std::vector<TokenSpan>& spans) const;
  // The pieces of Encode().
  std::vector<std::string> EncodePieces(std::string_view text) const;

  // The normalised words of `text` before they are taken apart: what BasicTokenizer gives. Special
  // tokens are text here.
  std::vector<std::string> Words(std::string_view text) const;

  // Pieces with spaces between words, for messages: the text before encoding is not kept.
  // Every id is in [0, vocab_size()).
  std::string Decode(std::span<const int32_t> ids) const;

  // Valid as long as a copy of the tokenizer lives.
  std::string_view Piece(int32_t id) const;
  // -1 where there is none.
  int32_t IdOf(std::string_view piece) const;

  int32_t vocab_size() const;
  int32_t unk_id() const;
  int32_t cls_id() const;
  int32_t sep_id() const;
  int32_t pad_id() const;   // -1 where the vocabulary has no [PAD]
  int32_t mask_id() const;  // -1 where the vocabulary has no [MASK]

  // As given, with what was unset filled in.
  const WordPieceOptions& options() const;

  // Of pieces, options and rules: equal hashes mean equal encodings. The same on every machine.
  uint64_t Hash() const;

 private:
  friend class WordPieceEncoder;
  explicit WordPieceTokenizer(std::shared_ptr<const internal::WordPieceTables> tables);

  // Shared, because encoders on several threads and the tokenizer's copies read the same tables.
  std::shared_ptr<const internal::WordPieceTables> tables_;
};

// Encodes many texts on one thread: remembers words it has seen, within a bound.
class WordPieceEncoder {
 public:
  // Of the memory for words, rounded down to a power of two and at least 64.
  explicit WordPieceEncoder(WordPieceTokenizer tokenizer, size_t cache_bytes = size_t{1} << 20);
  WordPieceEncoder(WordPieceEncoder&&) noexcept;
  WordPieceEncoder& operator=(WordPieceEncoder&&) noexcept;
  ~WordPieceEncoder();

  // Appends the ids of `text`, exactly those of WordPieceTokenizer::Encode(text).
  void Encode(std::string_view text, std::vector<int32_t>& ids);

  // Appends a row: [CLS] first [SEP], and with a second text that and [SEP]. Returns the row's
  // tokens of type 0; those after them are of type 1. An empty second text adds nothing (Google)
  // or a lone [SEP] (Hugging Face).
  int64_t EncodeRow(std::string_view first, std::optional<std::string_view> second,
                    const WordPieceRowOptions& options, std::vector<int32_t>& ids);

  // The same for one pair, with the type of every token; both vectors are overwritten.
  void EncodePair(std::string_view first, std::optional<std::string_view> second,
                  const WordPieceRowOptions& options, std::vector<int32_t>& ids,
                  std::vector<int32_t>& type_ids);

 private:
  WordPieceTokenizer tokenizer_;
  std::unique_ptr<internal::WordPieceTextEncoder> text_encoder_;
};

// Row i holds ids[offsets[i]] up to ids[offsets[i + 1]]; its first type0_sizes[i] tokens are of
// type 0, the others of type 1.
struct EncodedTexts {
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets;      // [rows + 1]
  std::vector<int64_t> type0_sizes;  // [rows]

  int64_t num_rows() const { return static_cast<int64_t>(type0_sizes.size()); }
  std::span<const int32_t> row(size_t i) const {
    return std::span(ids).subspan(static_cast<size_t>(offsets[i]),
                                  static_cast<size_t>(offsets[i + 1] - offsets[i]));
  }
};

// Several encoders side by side, kept from batch to batch so that what they remember stays.
class WordPieceBatchEncoder {
 public:
  // num_threads = 0 takes NumThreads().
  explicit WordPieceBatchEncoder(const WordPieceTokenizer& tokenizer, int num_threads = 0);

  // One row per text of `first`; `second` is empty or has as many. The result does not depend on
  // the number of threads.
  EncodedTexts Encode(std::span<const std::string_view> first,
                      std::span<const std::string_view> second, const WordPieceRowOptions& options);
  EncodedTexts Encode(std::span<const std::string_view> first,
                      const WordPieceRowOptions& options = {}) {
    return Encode(first, {}, options);
  }

 private:
  std::vector<WordPieceEncoder> encoders_;
};

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_WORDPIECE_H_
