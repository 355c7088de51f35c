// marian.h - the tokenizer of OPUS-MT and other Marian models: SentencePiece, then a vocabulary.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const MarianTokenizer tokenizer,
//                       MarianTokenizer::Load("models/opus-mt-en-de"));
//   MarianEncoder encoder(tokenizer);
//   std::vector<int32_t> ids;
//   encoder.Encode("A man plays.", MarianSide::kSource, ids);
//   const std::string text = tokenizer.Decode(ids);
//
// source.spm cuts source texts into pieces, target.spm target texts, and vocab.json has the ids of
// the pieces of both. Where tokenizer_config.json says separate_vocabs, vocab.json has those of
// source.spm, and target_vocab.json those of target.spm. A text for a model of many target
// languages begins with a token such as
// ">>deu<<". Ids and texts are those of the class MarianTokenizer of Hugging Face's transformers.
#ifndef DTRAIN_TOKENIZERS_MARIAN_H_
#define DTRAIN_TOKENIZERS_MARIAN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe.h"

namespace dtrain {

namespace internal {
struct MarianTables;
struct MarianScratch;
}  // namespace internal

// The language that a text is in.
enum class MarianSide { kSource, kTarget };

// The contents of a tokenizer's files. Their names in a folder are source.spm, target.spm,
// vocab.json, tokenizer_config.json and target_vocab.json; the last two may be "".
struct MarianFiles {
  std::string source_spm, target_spm, vocabulary, config, target_vocabulary = {};
};

// Immutable, and safe to share between threads. Copies share their tables.
class MarianTokenizer {
 public:
  // Reads the files of a folder. Returns DataError, which names the file and the key: one is
  // missing or damaged, or a special token has another id in each language.
  static StatusOr<MarianTokenizer> Load(const std::string& folder);
  // The same from the files' contents; `folder` is for messages.
  static StatusOr<MarianTokenizer> FromFiles(const MarianFiles& files, const std::string& folder);

  // The text that ids of targets stand for. Special tokens, the unknown piece among them, stand for
  // nothing. Each id is in [0, vocab_size()).
  std::string Decode(std::span<const int32_t> ids) const;

  // The piece as the vocabulary writes it. Valid as long as any copy exists.
  std::string_view Piece(int32_t id, MarianSide side = MarianSide::kTarget) const;
  // Returns -1 if there is no such piece.
  int32_t IdOf(std::string_view piece, MarianSide side = MarianSide::kTarget) const;
  // One more than the largest id.
  int32_t vocab_size(MarianSide side = MarianSide::kTarget) const;
  // Whether each language has a vocabulary of its own. Special tokens have the same ids in both.
  bool has_separate_vocabularies() const;
  int32_t unk_id() const;
  // The end of each text. Encoders do not write it.
  int32_t eos_id() const;
  int32_t pad_id() const;
  // A hash of the files, the same on every machine.
  uint64_t Hash() const;

 private:
  friend class MarianEncoder;
  explicit MarianTokenizer(std::shared_ptr<const internal::MarianTables> tables);

  std::shared_ptr<const internal::MarianTables> tables_;
};

// Encodes many texts on one thread. It caches the words it has seen, up to a memory limit.
class MarianEncoder {
 public:
  explicit MarianEncoder(MarianTokenizer tokenizer);
  MarianEncoder(MarianEncoder&&) noexcept;
  MarianEncoder& operator=(MarianEncoder&&) noexcept;
  ~MarianEncoder();

  // Appends the ids of `text`, without the end of the text. Bytes that are no UTF-8 count as
  // U+FFFD. Special tokens are taken as such, as transformers does: "</s>" within a text is the
  // end of a text.
  void Encode(std::string_view text, MarianSide side, std::vector<int32_t>& ids);

 private:
  void EncodePart(std::string_view part, MarianSide side, std::vector<int32_t>& ids);

  MarianTokenizer tokenizer_;
  std::unique_ptr<internal::MarianScratch> scratch_;
};

// The sides of the lines of a batch. kPairs: a source, then its target, and so on.
enum class MarianLines { kSources, kTargets, kPairs };

// One encoder per thread, kept from batch to batch so that their caches stay useful.
class MarianBatchEncoder {
 public:
  // num_threads = 0 means NumThreads().
  explicit MarianBatchEncoder(const MarianTokenizer& tokenizer, int num_threads = 0);

  // Encodes lines in parallel. The result does not depend on the number of threads.
  EncodedLines Encode(std::span<const std::string> lines, MarianLines sides);

 private:
  std::vector<MarianEncoder> encoders_;
};

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_MARIAN_H_
