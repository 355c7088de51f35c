// unigram_estimator.cc - expected counts of pieces, their Bayesian maximisation, and pruning.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/unigram_estimator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "dtrain/base/thread_pool.h"
#include "dtrain/data/internal/parallel_parts.h"
#include "dtrain/tokenizers/internal/unigram_model.h"

namespace dtrain::internal {
namespace {

// Fixed, so that sums are added in the same order on any number of threads. More parts take more
// memory: a number for each piece.
constexpr size_t kParts = 16;
// Pieces that are expected less often are dropped, as SentencePiece does.
constexpr double kLeastExpected = 0.5;

constexpr double kAlways = std::numeric_limits<double>::infinity();
constexpr double kUnused = -kAlways;

// The derivative of the logarithm of the gamma function, for x > 0: from the recurrence
// psi(x) = psi(x + 1) - 1 / x and the asymptotic series (Abramowitz, Stegun, 6.3.5 and 6.3.18).
double Digamma(double x) {
  double result = 0.0;
  while (x < 7.0) {
    result -= 1.0 / x;
    x += 1.0;
  }
  const double y = 1.0 / (x * x);
  return result + std::log(x) - 0.5 / x -
         y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
}

bool IsCharacter(const std::string& text) {
  return std::none_of(text.begin() + 1, text.end(),
                      [](char c) { return (static_cast<uint8_t>(c) & 0xC0u) != 0x80; });
}

}  // namespace

UnigramEstimator::UnigramEstimator(const UnigramWords& words, const std::vector<SeedPiece>& seeds,
                                   int num_threads)
    : words_(words), num_threads_(num_threads > 0 ? num_threads : NumThreads()) {
  size_t word = 0;
  for (size_t part = 1; part <= kParts; ++part) {
    const uint64_t end = words.text.size() / kParts * part;
    while (word < words.words.size() && (part == kParts || words.words[word].begin < end)) ++word;
    part_ends_.push_back(word);
  }
  double total = 0.0;
  for (const SeedPiece& seed : seeds) total += seed.score;
  for (const SeedPiece& seed : seeds) {
    texts_.push_back(seed.text);
    weights_.scores.push_back(std::log(seed.score / total));
  }
  trie_ = PieceTrie(texts_);
  size_ = texts_.size();
  SetUnknownScore();
}

void UnigramEstimator::ForEachPart(const std::function<void(size_t, size_t, size_t)>& body) const {
  const ScopedNumThreads threads(num_threads_);
  ParallelFor(static_cast<int64_t>(kParts), 1, [&](int64_t begin, int64_t end) {
    for (auto part = static_cast<size_t>(begin); part < static_cast<size_t>(end); ++part) {
      body(part, part == 0 ? 0 : part_ends_[part - 1], part_ends_[part]);
    }
  });
}

void UnigramEstimator::SetUnknownScore() {
  double lowest = 0.0;
  for (const double score : weights_.scores) {
    if (score != UnigramWeights::kDropped) lowest = std::min(lowest, score);
  }
  weights_.unknown = lowest - kUnknownPenalty;
}

double UnigramEstimator::Improve() {
  std::vector<std::vector<double>> counts(kParts);
  std::vector<double> likelihoods(kParts, 0.0);
  std::vector<int64_t> occurrences(kParts, 0);
  ForEachPart([&](size_t part, size_t begin, size_t end) {
    counts[part].assign(texts_.size(), 0.0);
    UnigramLattice lattice(trie_, weights_);
    for (size_t i = begin; i < end; ++i) {
      const UnigramWords::Word& word = words_.words[i];
      const double log = lattice.Expect(words_.TextOf(word), word.count, counts[part]);
      likelihoods[part] += static_cast<double>(word.count) * log;
      occurrences[part] += word.count;
    }
  });
  std::vector<double>& total = counts.front();
  for (size_t part = 1; part < kParts; ++part) {
    for (size_t i = 0; i < total.size(); ++i) total[i] += counts[part][i];
    likelihoods[0] += likelihoods[part];
    occurrences[0] += occurrences[part];
  }
  // Not the logarithm of a share but its expectation under a sparse Dirichlet process, which makes
  // rare pieces rarer (Liang et al., "The Infinite PCFG using Hierarchical Dirichlet Processes"
  // (2007), section 3.3).
  double sum = 0.0;
  size_ = 0;
  for (const double count : total) {
    if (count < kLeastExpected) continue;
    sum += count;
    ++size_;
  }
  const double log_sum = Digamma(sum);
  for (size_t i = 0; i < total.size(); ++i) {
    weights_.scores[i] =
        total[i] < kLeastExpected ? UnigramWeights::kDropped : Digamma(total[i]) - log_sum;
  }
  SetUnknownScore();
  return likelihoods[0] / static_cast<double>(occurrences[0]);
}

// How often the best ways through the words use each piece.
std::vector<int64_t> UnigramEstimator::BestCounts() const {
  std::vector<std::vector<int64_t>> counts(kParts);
  ForEachPart([&](size_t part, size_t begin, size_t end) {
    counts[part].assign(texts_.size(), 0);
    UnigramLattice lattice(trie_, weights_);
    for (size_t i = begin; i < end; ++i) {
      const UnigramWords::Word& word = words_.words[i];
      for (const int32_t id : lattice.BestWay(words_.TextOf(word))) {
        if (id != UnigramLattice::kUnknown) counts[part][static_cast<size_t>(id)] += word.count;
      }
    }
  });
  for (size_t part = 1; part < kParts; ++part) {
    for (size_t i = 0; i < texts_.size(); ++i) counts[0][i] += counts[part][i];
  }
  return std::move(counts[0]);
}

// What the text would lose in likelihood without each piece: kAlways for characters, kUnused for
// pieces that are on no best way.
std::vector<double> UnigramEstimator::Losses(const std::vector<int64_t>& counts) const {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  const double sum = static_cast<double>(total);
  std::vector<double> losses(texts_.size(), kUnused);
  const ScopedNumThreads threads(num_threads_);
  ParallelFor(static_cast<int64_t>(texts_.size()), 256, [&](int64_t begin, int64_t end) {
    UnigramLattice lattice(trie_, weights_);
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (weights_.scores[i] == UnigramWeights::kDropped) continue;
      if (IsCharacter(texts_[i])) {
        losses[i] = kAlways;
        continue;
      }
      if (counts[i] == 0) continue;
      const auto count = static_cast<double>(counts[i]);
      const std::span<const int32_t> others = lattice.BestWay(texts_[i], static_cast<int32_t>(i));
      // The pieces that take its place occur as often, too.
      const double log_sum = std::log(sum + count * (static_cast<double>(others.size()) - 1.0));
      double loss = std::log(count / sum);
      for (const int32_t id : others) {
        const bool is_unknown = id == UnigramLattice::kUnknown;
        loss -=
            is_unknown
                ? weights_.unknown
                : std::log(static_cast<double>(counts[static_cast<size_t>(id)]) + count) - log_sum;
      }
      losses[i] = count * loss;
    }
  });
  return losses;
}

void UnigramEstimator::Prune(size_t size) {
  const std::vector<double> losses = Losses(BestCounts());
  std::vector<size_t> order;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (losses[i] != kUnused) order.push_back(i);
  }
  const auto characters = static_cast<size_t>(std::count(losses.begin(), losses.end(), kAlways));
  const size_t kept = std::min(order.size(), std::max(size, characters));
  std::nth_element(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
      [&](size_t a, size_t b) { return losses[a] != losses[b] ? losses[a] > losses[b] : a < b; });
  order.resize(kept);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < kept; ++i) {
    if (i != order[i]) texts_[i] = std::move(texts_[order[i]]);
    weights_.scores[i] = weights_.scores[order[i]];
  }
  texts_.resize(kept);
  weights_.scores.resize(kept);
  trie_ = PieceTrie(texts_);
  size_ = kept;
  SetUnknownScore();
}

std::vector<UnigramPiece> UnigramEstimator::pieces() const {
  std::vector<UnigramPiece> pieces;
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (weights_.scores[i] != UnigramWeights::kDropped) {
      pieces.push_back({texts_[i], weights_.scores[i]});
    }
  }
  return pieces;
}

}  // namespace dtrain::internal
