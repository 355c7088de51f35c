// bpe.h - subword tokenizer: byte-pair encoding in SentencePiece's conventions and file format.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const BpeModel model, BpeModel::Load("run/vocab.spm"));
//   std::vector<int32_t> ids = model.Encode("Ein Hund rennt.");  // no </s> at the end
//   model.Decode(ids) == "Ein Hund rennt."
//
// Text is raw: runs of spaces become one, those at both ends vanish, every word begins with U+2581,
// bytes that are not UTF-8 become U+FFFD; nothing else is normalised. The stock spm_encode gives
// the same pieces when it loads the file Save() writes.
//
// Ids: 0 <unk>, 1 <s>, 2 </s>, then the pieces; the last id of the model vocabulary is <pad>, which
// the file does not hold: MarianMTModel starts its decoder with it and expects it there.
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

// The values are those of the file format.
enum class BpePieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };

struct BpePiece {
  std::string text;
  BpePieceType type = BpePieceType::kNormal;
  float score = 0.0f;  // of two possible merges the one with the higher score comes first
};

// A model as plain data, <pad> left out. The position of a piece is its id.
struct BpeVocabulary {
  std::vector<BpePiece> pieces;
  int32_t unk_id = 0;
  int32_t bos_id = 1;
  int32_t eos_id = 2;
  bool byte_fallback = false;  // unknown characters become byte pieces; needs all 256 of them
};

struct BpeEncodeOptions {
  // Probability with which each possible merge is dropped (BPE-dropout, Provilkov et al. 2020,
  // section 3), in [0, 1]. 0 is the plain encoding, 1 gives single characters.
  float dropout = 0.0f;
  RandomKey key = {};  // the same key gives the same pieces
};

// Immutable and safe to share between threads; copies share their tables.
class BpeModel {
 public:
  // DataError names the piece that cannot be: empty, twice, not UTF-8, a byte missing.
  static StatusOr<BpeModel> FromVocabulary(BpeVocabulary vocabulary);

  // Reads a SentencePiece BPE model file, ours or a foreign one of normalisation "identity".
  static StatusOr<BpeModel> Load(const std::string& path);
  // Writes a SentencePiece model file, by way of a temporary one beside it.
  Status Save(const std::string& path) const;

  // One line of text without its newline; empty for a line of spaces. No control ids are added.
  std::vector<int32_t> Encode(std::string_view line) const;
  std::vector<int32_t> Encode(std::string_view line, const BpeEncodeOptions& options) const;
  // The pieces as spm_encode prints them: an unknown run appears as its own text.
  std::vector<std::string> EncodePieces(std::string_view line) const;

  // The text again. Control ids and <pad> vanish, <unk> becomes " \u2047 " as in SentencePiece.
  // Every id is in [0, vocab_size()).
  std::string Decode(std::span<const int32_t> ids) const;

  // Valid as long as a copy of the model lives.
  std::string_view Piece(int32_t id) const;

  // Counts everything, <pad> included.
  int32_t vocab_size() const;
  int32_t unk_id() const;
  int32_t bos_id() const;
  int32_t eos_id() const;
  int32_t pad_id() const { return vocab_size() - 1; }
  const BpeVocabulary& vocabulary() const;

  // Of pieces, types, order of merges and options: equal hashes mean equal encodings. The same on
  // every machine (FNV-1a, 64 bits).
  uint64_t Hash() const;

 private:
  friend class BpeEncoder;
  explicit BpeModel(std::shared_ptr<const internal::BpeTables> tables);

  // Shared, because encoders on several threads and the model's copies read the same tables.
  std::shared_ptr<const internal::BpeTables> tables_;
};

// Encodes many lines on one thread: remembers the words it has seen, within a bound.
class BpeEncoder {
 public:
  explicit BpeEncoder(BpeModel model, size_t cache_bytes = size_t{16} << 20);
  BpeEncoder(BpeEncoder&&) noexcept;
  BpeEncoder& operator=(BpeEncoder&&) noexcept;
  ~BpeEncoder();

  // Appends the ids of `line`, exactly those of BpeModel::Encode(line).
  void Encode(std::string_view line, std::vector<int32_t>& ids);

 private:
  void EncodeWord(std::string_view word, std::vector<int32_t>& ids);

  BpeModel model_;
  std::unique_ptr<internal::BpeScratch> scratch_;
  std::unique_ptr<internal::WordCache> cache_;
};

// Sentence i holds ids[offsets[i]] up to ids[offsets[i + 1]].
struct EncodedLines {
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets;  // [lines + 1]

  std::span<const int32_t> line(size_t i) const {
    return std::span(ids).subspan(static_cast<size_t>(offsets[i]),
                                  static_cast<size_t>(offsets[i + 1] - offsets[i]));
  }
};

// Several encoders side by side, kept from batch to batch so that their caches stay warm.
class BpeBatchEncoder {
 public:
  // num_threads = 0 takes NumThreads().
  explicit BpeBatchEncoder(const BpeModel& model, int num_threads = 0);

  // The result does not depend on the number of threads.
  EncodedLines Encode(std::span<const std::string> lines);

 private:
  std::vector<BpeEncoder> encoders_;
};

// For a single batch.
EncodedLines EncodeLines(const BpeModel& model, std::span<const std::string> lines,
                         int num_threads = 0);

}  // namespace dtrain

#endif  // DTRAIN_TOKENIZERS_BPE_H_
