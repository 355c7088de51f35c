// unigram_lattice.h - all ways to cut a word into pieces: their sum, and the best of them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_LATTICE_H_
#define DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_LATTICE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "dtrain/tokenizers/internal/piece_trie.h"

namespace dtrain::internal {

// Natural logarithms of the probabilities of pieces, by id.
struct UnigramWeights {
  static constexpr double kDropped = -std::numeric_limits<double>::infinity();
  std::vector<double> scores;
  double unknown = 0.0;  // of a character that is no piece
};

// One thread's memory for words, one after the other.
class UnigramLattice {
 public:
  static constexpr int32_t kUnknown = -1;

  UnigramLattice(const PieceTrie& trie, const UnigramWeights& weights)
      : trie_(trie), weights_(weights) {}

  // Adds to counts[id] how often each piece is expected in `count` occurrences of the word, given
  // all ways to cut it. Returns the logarithm of the word's probability.
  double Expect(std::string_view word, int64_t count, std::span<double> counts);

  // The ids of the best way, the last piece first; of equal ways the one whose last piece is
  // longest. `without` is a piece that must not be used, or kUnknown. Valid until the next call.
  std::span<const int32_t> BestWay(std::string_view word, int32_t without = kUnknown);

 private:
  struct Node {
    double sum;     // Expect(): of all ways to here; BestWay(): of the best one
    double share;   // Expect(): of the ways that lead through here
    double best;    // the highest value of the edges that end here
    int32_t edges;  // head of their list, or kNone
  };
  struct Edge {
    double value;  // the sum at its begin and its own score; then its share of the sum at its end
    uint32_t begin;
    int32_t id;
    int32_t next;
  };
  static constexpr int32_t kNone = -1;

  void Start(std::string_view word);
  // Calls piece(size, id, score) for each piece at the front of `rest`, and for its first character
  // if that is none. Returns the character's size.
  template <typename Take>
  size_t ForEachPiece(std::string_view rest, int32_t without, const Take& piece) const;
  void SumEdges(Node& node);

  const PieceTrie& trie_;
  const UnigramWeights& weights_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<int32_t> way_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_LATTICE_H_
