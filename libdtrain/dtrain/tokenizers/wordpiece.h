// wordpiece.h - BERT's tokenizer: the WordPiece ids of Google's or Hugging Face's program.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const WordPieceTokenizer tokenizer,
//                       WordPieceTokenizer::Load("vocab.txt", {.lower_case = true}));
//   WordPieceBatchEncoder encoder(tokenizer);
//   const std::vector<std::string_view> first = {"A man plays."}, second = {"He sleeps."};
//   const EncodedTexts rows = encoder.Encode(first, second, {.max_length = 128});
//
// A text is cleaned and split at spaces, CJK characters and punctuation. For uncased vocabularies
// it is converted to lower case without accents. Then each word is divided into the longest
// possible pieces, from left to right. A word for which this fails, or that is too long, becomes
// [UNK]. Invalid UTF-8 is skipped. No text causes an error.
//
// Both behaviours give the same ids for almost every text. Hugging Face's (the Rust library
// `tokenizers`) differs from Google's (tokenization.py, with Python 3.11 and Unicode 14) in the
// treatment of:
// - special tokens in the text
// - words of 101 to 200 characters
// - a capital sigma at the end of a word
// - private-use characters, which it drops
// - the first 256 characters of CJK extension E
// - some characters newer than Unicode 8
// - pairs that are too long: which side loses one token more
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
#include "dtrain/tokenizers/encoded_texts.h"

namespace dtrain {

namespace internal {
struct WordPieceTables;
class WordPieceTextEncoder;
}  // namespace internal

// Whose program the ids equal.
enum class WordPieceBehavior : uint8_t { kGoogle, kHuggingFace };

// How words are found and divided.
struct WordPieceOptions {
  WordPieceBehavior behavior = WordPieceBehavior::kGoogle;
  bool lower_case = true;                            // false for cased vocabularies
  std::optional<bool> strip_accents = std::nullopt;  // default: same as lower_case
  bool split_cjk = true;                             // every CJK character is a word
  // Words with more characters than this become [UNK]. 0 means Google's 200 or Hugging Face's 100.
  // At most 1000.
  int max_word_chars = 0;
  // If true, "[SEP]" in a text is the separator token; the same for [CLS], [MASK], [PAD] and [UNK].
  // Authors of texts can then control the model's input. By default true only for Hugging Face's
  // behaviour.
  std::optional<bool> match_special_tokens = std::nullopt;
};

// How texts become a row.
struct WordPieceRowOptions {
  // Maximum length of a row including special tokens, at least 3; 0 for no limit. The longer side
  // of a pair is cut first, at its end. If both sides are cut to an odd total, one side keeps a
  // token more. In Google's behaviour this is the first side. In Hugging Face's it is the side that
  // was longer, or the second if both were equally long.
  int max_length = 0;
};

// Returns the pieces of a vocabulary, one a line, in the order of their ids: the text of a
// vocab.txt, or the WordPiece model of a tokenizer.json from Hugging Face's tokenizers. Returns
// DataError.
StatusOr<std::string> ReadVocabularyText(const std::string& path);

// The settings that the normalizer of a tokenizer.json has.
struct WordPieceSettings {
  std::optional<bool> lower_case;
  std::optional<bool> strip_accents;
};
// Returns DataError where the file is no tokenizer.json.
StatusOr<WordPieceSettings> ReadWordPieceSettings(const std::string& path);

// Immutable, and safe to share between threads. Copies share their tables.
class WordPieceTokenizer {
 public:
  // Reads a text file with one piece per line, whose number (from 0) is the id, or a
  // tokenizer.json. Returns DataError, which names file and line, if the file is missing or a line
  // is invalid (CR LF, not UTF-8, empty, a duplicate piece). A missing special token is an error
  // too.
  static StatusOr<WordPieceTokenizer> Load(const std::string& path,
                                           const WordPieceOptions& options = {});
  // Makes the same checks; messages count lines from 1. Returns UsageError if options are out of
  // range.
  static StatusOr<WordPieceTokenizer> FromVocabulary(std::vector<std::string> pieces,
                                                     const WordPieceOptions& options = {});

  // Appends the ids of `text`, without [CLS] and [SEP]. For many texts WordPieceEncoder is faster.
  void Encode(std::string_view text, std::vector<int32_t>& ids) const;
  std::vector<int32_t> Encode(std::string_view text) const;
  // Appends the ids and the place of each token in `text`. A place reaches from the first to the
  // last character from which the token's own characters were made; for [UNK] it is the whole word.
  // Characters that produce nothing (a stripped accent, a control character) belong to a token only
  // if they are inside of it. Begins and ends never decrease. The pieces of one character (a Hangul
  // syllable) share its bytes. Special tokens are treated as text here, whatever the options say.
  // The text must be shorter than 2 GiB.
  void EncodeWithSpans(std::string_view text, std::vector<int32_t>& ids,
                       std::vector<TokenSpan>& spans) const;
  // The pieces for the ids of Encode().
  std::vector<std::string> EncodePieces(std::string_view text) const;

  // The normalised words of `text` before they are divided into pieces, like BasicTokenizer's
  // result. Special tokens are treated as text.
  std::vector<std::string> Words(std::string_view text) const;

  // The pieces as text with spaces between words, for messages; the original text cannot be
  // restored. Every id must be in [0, vocab_size()).
  std::string Decode(std::span<const int32_t> ids) const;

  // Valid as long as any copy of the tokenizer exists.
  std::string_view Piece(int32_t id) const;
  // Returns -1 if there is no such piece.
  int32_t IdOf(std::string_view piece) const;

  int32_t vocab_size() const;
  int32_t unk_id() const;
  int32_t cls_id() const;
  int32_t sep_id() const;
  int32_t pad_id() const;   // -1 if the vocabulary has no [PAD]
  int32_t mask_id() const;  // -1 if the vocabulary has no [MASK]

  // The options as given, with defaults filled in.
  const WordPieceOptions& options() const;

  // A hash of pieces, options and rules, the same on every machine. Equal hashes mean equal
  // encodings.
  uint64_t Hash() const;

 private:
  friend class WordPieceEncoder;
  explicit WordPieceTokenizer(std::shared_ptr<const internal::WordPieceTables> tables);

  // Shared, because encoders on several threads and the tokenizer's copies read the same tables.
  std::shared_ptr<const internal::WordPieceTables> tables_;
};

// Encodes many texts on one thread. It caches the words it has seen, up to a memory limit.
class WordPieceEncoder {
 public:
  // cache_bytes limits the memory for words. It is rounded down to a power of two, at least 64.
  explicit WordPieceEncoder(WordPieceTokenizer tokenizer, size_t cache_bytes = size_t{1} << 20);
  WordPieceEncoder(WordPieceEncoder&&) noexcept;
  WordPieceEncoder& operator=(WordPieceEncoder&&) noexcept;
  ~WordPieceEncoder();

  // Appends the ids of `text`, the same as WordPieceTokenizer::Encode(text).
  void Encode(std::string_view text, std::vector<int32_t>& ids);

  // Appends a row: [CLS] first [SEP], followed by second [SEP] if there is a second text. Returns
  // the number of tokens of type 0; later tokens have type 1. An empty second text adds nothing
  // (Google) or a single [SEP] (Hugging Face).
  int64_t EncodeRow(std::string_view first, std::optional<std::string_view> second,
                    const WordPieceRowOptions& options, std::vector<int32_t>& ids);

  // EncodeRow() with the type of every token. Both vectors are overwritten.
  void EncodePair(std::string_view first, std::optional<std::string_view> second,
                  const WordPieceRowOptions& options, std::vector<int32_t>& ids,
                  std::vector<int32_t>& type_ids);

 private:
  WordPieceTokenizer tokenizer_;
  std::unique_ptr<internal::WordPieceTextEncoder> text_encoder_;
};

// One encoder per thread, kept from batch to batch so that their caches stay useful.
class WordPieceBatchEncoder {
 public:
  // num_threads = 0 means NumThreads().
  explicit WordPieceBatchEncoder(const WordPieceTokenizer& tokenizer, int num_threads = 0);

  // Encodes one row for each text of `first`. `second` must be empty or have as many texts. The
  // result does not depend on the number of threads.
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
