// unigram_estimator.h - fits the probabilities of pieces to a text, and drops the least useful.
// SPDX-License-Identifier: Apache-2.0
//
// Kudo, "Subword Regularization" (2018), section 3.2. Results do not depend on the number of
// threads: the words are always added up in the same parts.
#ifndef DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_ESTIMATOR_H_
#define DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_ESTIMATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/tokenizers/internal/piece_trie.h"
#include "dtrain/tokenizers/internal/seed_pieces.h"
#include "dtrain/tokenizers/internal/unigram_lattice.h"
#include "dtrain/tokenizers/internal/unigram_words.h"

namespace dtrain::internal {

struct UnigramPiece {
  std::string text;  // with a space for U+2581
  double score;      // natural logarithm of the probability
};

class UnigramEstimator {
 public:
  // `words` must outlive this object. A seed's probability is its share of all scores.
  // num_threads = 0 means NumThreads().
  UnigramEstimator(const UnigramWords& words, const std::vector<SeedPiece>& seeds, int num_threads);

  // One round of expectation and maximisation. A piece that is expected less than half a time is
  // dropped. Returns the log-likelihood of the text before the round, per occurrence of a word.
  double Improve();

  // Keeps single characters and the pieces whose loss would cost the most, about `size` in all. A
  // piece costs the difference between its probability and that of the pieces which would take its
  // place, as often as the best ways through the words use it.
  void Prune(size_t size);

  // Number of pieces that are not dropped.
  size_t size() const { return size_; }

  // Those pieces.
  std::vector<UnigramPiece> pieces() const;

 private:
  // Calls body(part, begin, end) for ranges of words, on several threads.
  void ForEachPart(const std::function<void(size_t, size_t, size_t)>& body) const;
  std::vector<int64_t> BestCounts() const;
  std::vector<double> Losses(const std::vector<int64_t>& counts) const;
  void SetUnknownScore();

  const UnigramWords& words_;
  int num_threads_;
  std::vector<size_t> part_ends_;  // indices of words
  std::vector<std::string> texts_;
  UnigramWeights weights_;
  PieceTrie trie_;
  size_t size_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_TOKENIZERS_INTERNAL_UNIGRAM_ESTIMATOR_H_
