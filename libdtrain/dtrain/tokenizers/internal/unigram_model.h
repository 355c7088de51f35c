// unigram_model.h - the most likely way to cut a text into pieces (Viterbi).
// SPDX-License-Identifier: Apache-2.0
//
// Kudo, "Subword Regularization" (2018), section 3.2: of all ways to cut a text, take the one with
// the largest sum of the scores of its pieces. A character that is no piece may be cut off, too, at
// the price of an unknown one.
#ifndef DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_MODEL_H_
#define DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/internal/piece_trie.h"

namespace dtrain::internal {

// An unknown character costs so much more than the least likely piece.
inline constexpr double kUnknownPenalty = 10.0;

// The size of the character at the front of `text` (not empty) by its first byte.
inline size_t CharacterSize(std::string_view text) {
  const auto byte = static_cast<uint8_t>(text.front());
  const size_t size = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  return std::min(size, text.size());
}

// A model as its file describes it. Vectors are indexed by id.
struct UnigramScores {
  std::vector<std::string> surfaces;  // the texts that pieces stand for; empty: no text
  std::vector<double> scores;
  int32_t unk_id = 0;
  double unk_score = 0.0;
  // Sums are rounded to single precision after each piece, as SentencePiece does it, so that of
  // nearly equal ways the same is taken. `tokenizers` sums in double precision.
  bool rounds_sums = false;
};

// A piece of the best way. An unknown character has the id unk_id.
struct UnigramStep {
  int32_t id;
  uint32_t size;  // of its text, in bytes
};

// Memory that is used again for each text.
struct UnigramScratch {
  struct Node {
    double sum;     // of the best way from the begin to here
    double second;  // of the second best way for the last piece
    uint32_t begin;
    int32_t id;  // of the last piece; kNone where no way leads to
  };
  static constexpr int32_t kNone = -1;
  std::vector<Node> nodes;
  std::vector<UnigramStep> steps;  // of the last segment
};

class UnigramModel {
 public:
  UnigramModel() = default;
  explicit UnigramModel(UnigramScores scores);

  int32_t unk_id() const { return unk_id_; }
  // Whether a piece has a space behind its first byte. If none has, no piece reaches from one word
  // into the next.
  bool has_inner_spaces() const { return has_inner_spaces_; }
  std::string_view surface(int32_t id) const { return surfaces_[static_cast<size_t>(id)]; }

  // The sum after a piece that follows a way with `sum`.
  double After(double sum, int32_t id) const {
    if (id == unk_id_) return Round(Unknown(sum));
    return Round(sum + scores_[static_cast<size_t>(id)]);
  }

  // Finds the best way through the first part of `text` (not empty) up to a place that all ways go
  // through, and returns its size. The way's pieces are then scratch.steps. `sum` is that before
  // the part, and becomes that after it. `gap` becomes the least difference, if it is less, by
  // which a piece of the way was better than another one with the same end.
  size_t NextSegment(std::string_view text, double& sum, double& gap,
                     UnigramScratch& scratch) const;

  // How far sums may be from exact ones within a word of so many bytes that begins at `sum`.
  double ErrorBound(double sum, size_t bytes) const {
    const auto pieces = static_cast<double>(bytes);
    return pieces * unit_ * ((sum < 0 ? -sum : sum) + pieces * largest_);
  }

 private:
  double Round(double sum) const { return rounds_sums_ ? static_cast<float>(sum) : sum; }
  double Unknown(double sum) const {
    return rounds_sums_ ? static_cast<float>(sum) + static_cast<float>(unk_score_)
                        : sum + unk_score_;
  }

  std::vector<std::string> surfaces_;
  std::vector<double> scores_;
  PieceTrie trie_;
  int32_t unk_id_ = 0;
  double unk_score_ = 0.0;
  double largest_ = 0.0;  // of the absolute scores
  double unit_ = 0.0;     // relative error of a rounded sum
  bool rounds_sums_ = false;
  bool has_inner_spaces_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_MODEL_H_
