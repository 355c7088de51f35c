// bpe.h - a byte-pair encoding (BPE) tokenizer, compatible with SentencePiece's files.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const BpeModel model, BpeModel::Load("run/vocab.spm"));
//   const std::vector<int32_t> ids = model.Encode("Ein Hund rennt.");  // no </s> at the end
//   const std::string text = model.Decode(ids);                        // "Ein Hund rennt."
//
// Text is hardly normalised: runs of spaces become one space, spaces at both ends are removed,
// every word begins with U+2581, and invalid UTF-8 becomes U+FFFD. The original spm_encode produces
// the same pieces from a file written by Save().
//
// Ids: 0 <unk>, 1 <s>, 2 </s>, then the pieces. The last id is <pad>, which is not in the file;
// MarianMTModel starts its decoder with <pad> and expects it there.
#ifndef DTRAIN_TOKENIZERS_BPE_H_
#define DTRAIN_TOKENIZERS_BPE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/base/status.h"

namespace dtrain {

namespace internal {
struct BpeTables;
class WordCache;
struct BpeScratch;
}  // namespace internal

// The values are those of the file format. A user-defined piece is one wherever its text occurs: it
// is not merged with its neighbours, and the longest one counts.
enum class BpePieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kByte = 6
};

// An entry of the vocabulary.
struct BpePiece {
  std::string text;
  BpePieceType type = BpePieceType::kNormal;
  float score = 0.0f;  // of two possible merges, the one with the higher score is made first
};

// A model as plain data, without <pad>. A piece's index is its id.
struct BpeVocabulary {
  std::vector<BpePiece> pieces;
  int32_t unk_id = 0;
  int32_t bos_id = 1;
  int32_t eos_id = 2;
  bool byte_fallback = false;  // unknown characters become byte pieces; all 256 must exist
};

// How a line is encoded.
struct BpeEncodeOptions {
  // Probability of dropping each possible merge (BPE-dropout, Provilkov et al. 2020, section 3), in
  // [0, 1]. 0 is the normal encoding, 1 yields single characters.
  float dropout = 0.0f;
  RandomKey key = {};  // the same key gives the same pieces
};

// Immutable, and safe to share between threads. Copies share their tables.
class BpeModel {
 public:
  // Returns DataError, naming the piece, if a piece is empty, duplicate or not UTF-8, a byte piece
  // is missing, or a user-defined piece has a space.
  static StatusOr<BpeModel> FromVocabulary(BpeVocabulary vocabulary);

  // Reads a SentencePiece BPE model file, written by us or by others with normalisation "identity".
  static StatusOr<BpeModel> Load(const std::string& path);
  // Writes a SentencePiece model file, through a temporary file in the same folder.
  Status Save(const std::string& path) const;

  // Encodes one line of text without its newline. The result is empty for a line of spaces. No
  // control ids are added.
  std::vector<int32_t> Encode(std::string_view line) const;
  std::vector<int32_t> Encode(std::string_view line, const BpeEncodeOptions& options) const;
  // The pieces as spm_encode prints them. A run of unknown characters is shown as its own text.
  std::vector<std::string> EncodePieces(std::string_view line) const;

  // Decodes ids to text. Control ids and <pad> are omitted, and <unk> becomes " \u2047 ", as in
  // SentencePiece. Every id must be in [0, vocab_size()).
  std::string Decode(std::span<const int32_t> ids) const;

  // Valid as long as any copy of the model exists.
  std::string_view Piece(int32_t id) const;

  // The number of all ids, including <pad>.
  int32_t vocab_size() const;
  int32_t unk_id() const;
  int32_t bos_id() const;
  int32_t eos_id() const;
  int32_t pad_id() const { return vocab_size() - 1; }
  const BpeVocabulary& vocabulary() const;

  // A 64-bit FNV-1a hash of pieces, types, merge order and options, the same on every machine.
  // Equal hashes mean equal encodings.
  uint64_t Hash() const;

 private:
  friend class BpeEncoder;
  explicit BpeModel(std::shared_ptr<const internal::BpeTables> tables);

  // Shared, because encoders on several threads and the model's copies read the same tables.
  std::shared_ptr<const internal::BpeTables> tables_;
};

// Encodes many lines on one thread. It caches the words it has seen, up to a memory limit.
class BpeEncoder {
 public:
  explicit BpeEncoder(BpeModel model, size_t cache_bytes = size_t{16} << 20);
  BpeEncoder(BpeEncoder&&) noexcept;
  BpeEncoder& operator=(BpeEncoder&&) noexcept;
  ~BpeEncoder();

  // Appends the ids of `line`, the same as BpeModel::Encode(line).
  void Encode(std::string_view line, std::vector<int32_t>& ids);

 private:
  void EncodeWord(std::string_view word, std::vector<int32_t>& ids);

  BpeModel model_;
  std::unique_ptr<internal::BpeScratch> scratch_;
  std::unique_ptr<internal::WordCache> cache_;
};

// Sentence i consists of ids[offsets[i]] to ids[offsets[i + 1] - 1].
struct EncodedLines {
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets;  // [lines + 1]

  // The ids of sentence i.
  std::span<const int32_t> line(size_t i) const {
    return std::span(ids).subspan(static_cast<size_t>(offsets[i]),
                                  static_cast<size_t>(offsets[i + 1] - offsets[i]));
  }
};

// One encoder per thread, kept from batch to batch so that their caches stay useful.
class BpeBatchEncoder {
 public:
  // num_threads = 0 means NumThreads().
  explicit BpeBatchEncoder(const BpeModel& model, int num_threads = 0);

  // Encodes lines in parallel. The result does not depend on the number of threads.
  EncodedLines Encode(std::span<const std::string> lines);

 private:
  std::vector<BpeEncoder> encoders_;
};

// Encodes a single batch.
EncodedLines EncodeLines(const BpeModel& model, std::span<const std::string> lines,
                         int num_threads = 0);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_BPE_H_
