// translation_tokenizer.h - the tokenizer of a translation model, whichever kind it is of.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const TranslationTokenizer tokenizer,
//                       TranslationTokenizer::Load("models/opus-mt-en-de"));
//   TranslationEncoder encoder(tokenizer);
//   const EncodedLines lines = encoder.Encode(texts, MarianLines::kSources);
#ifndef DTRAIN_TASKS_TRANSLATION_TRANSLATION_TOKENIZER_H_
#define DTRAIN_TASKS_TRANSLATION_TRANSLATION_TOKENIZER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/tokenizers/bpe.h"
#include "dtrain/tokenizers/marian.h"
#include "dtrain/train/task.h"

namespace dtrain {

// The names of all files that a tokenizer of any kind has in a folder of prepared data or in a
// checkpoint. "vocab.spm" is of a vocabulary that dtrain learned, or another BPE model of
// SentencePiece; the others are of Marian models.
inline constexpr std::string_view kTokenizerFiles[] = {
    "vocab.spm",        "source.spm", "target.spm", "vocab.json", "tokenizer_config.json",
    "target_vocab.json"};

// The path that data.vocabulary names the tokenizer of a folder by: the folder, or its vocab.spm.
std::string TokenizerPathIn(const std::string& folder);

// Immutable, and safe to share between threads. Copies share their tables, not the files.
class TranslationTokenizer {
 public:
  // Reads a BPE model of SentencePiece, or the tokenizer of a folder: prepared data, a checkpoint,
  // a published Marian model, or an export. Returns DataError for a file that is missing, damaged
  // or of another kind.
  static StatusOr<TranslationTokenizer> Load(const std::string& path);
  // The files that Load(path) reads. Empty: it is a folder without a tokenizer.
  static std::vector<std::string> FilesOf(const std::string& path);

  // The text of ids of targets.
  std::string Decode(std::span<const int32_t> ids) const;
  // As the vocabulary writes it. Valid as long as any copy exists.
  std::string_view Piece(int32_t id, MarianSide side = MarianSide::kTarget) const;
  // One more than the largest id.
  int32_t vocab_size(MarianSide side = MarianSide::kTarget) const;
  // Whether each language has a vocabulary of its own.
  bool has_separate_vocabularies() const;
  int32_t bos_id() const;  // -1: no begin of a sentence is marked
  int32_t unk_id() const;
  int32_t eos_id() const;
  int32_t pad_id() const;
  // Ids that no translation holds, besides pad_id(): of a BPE model marks, the unknown piece, and
  // where bytes are pieces those that would end its line. Marian models may write any piece.
  std::vector<int32_t> never_translated() const;
  // Equal hashes mean equal encodings.
  uint64_t Hash() const;

  using Kind = std::variant<BpeModel, MarianTokenizer>;
  const Kind& kind() const { return kind_; }
  // As prepared data and checkpoints hold them.
  const std::vector<NamedFile>& files() const { return files_; }

 private:
  TranslationTokenizer(Kind kind, std::vector<NamedFile> files);

  Kind kind_;
  std::vector<NamedFile> files_;
};

// One encoder per thread, kept from batch to batch so that their caches stay useful.
class TranslationEncoder {
 public:
  explicit TranslationEncoder(const TranslationTokenizer& tokenizer);

  // Encodes lines in parallel, without ends of sentences. The result does not depend on the number
  // of threads.
  EncodedLines Encode(std::span<const std::string> lines, MarianLines sides);

 private:
  std::variant<BpeBatchEncoder, MarianBatchEncoder> of_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_TRANSLATION_TOKENIZER_H_
