// ngram_matcher.h - clipped n-gram matches between one hypothesis and its references.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_METRICS_INTERNAL_NGRAM_MATCHER_H_
#define DTRAIN_METRICS_INTERNAL_NGRAM_MATCHER_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::internal {

// Symbols are 32-bit ids of words, code points or tokens. Buffers are kept from one segment to the
// next.
//
//   matcher.Start();
//   matcher.AddText(hypothesis);
//   matcher.AddText(reference);
//   for (order = 1; order <= 4; ++order) matches[order - 1] = matcher.MatchNextOrder();
class NgramMatcher {
 public:
  void Start() {
    order_ = 0;
    symbols_.clear();
    ends_.clear();
  }

  // Adds a text. The first one is the hypothesis, the others are its references.
  void AddText(std::span<const uint32_t> symbols) {
    symbols_.insert(symbols_.end(), symbols.begin(), symbols.end());
    ends_.push_back(symbols_.size());
  }

  // Returns the sum over the hypothesis' distinct n-grams of min(count there, largest count in one
  // reference). n is 1 in the first call after Start() and grows by one with each call.
  int64_t MatchNextOrder() {
    ++order_;
    if (order_ == 1) grams_.assign(symbols_.size(), 0);
    ClearTable();
    counts_.clear();
    const size_t texts = ends_.size();
    for (size_t text = 0; text < texts; ++text) {
      const size_t begin = text == 0 ? 0 : ends_[text - 1];
      for (size_t i = begin; i + order_ <= ends_[text]; ++i) {
        // The n-gram at i is identified by its (n-1)-gram and its last symbol, which is exact at
        // any order.
        const uint64_t key = uint64_t{grams_[i]} << 32 | symbols_[i + order_ - 1];
        const uint32_t gram = FindOrAdd(key, static_cast<uint32_t>(counts_.size() / texts));
        if (gram * texts == counts_.size()) counts_.resize(counts_.size() + texts, 0);
        ++counts_[gram * texts + text];
        grams_[i] = gram;
      }
    }
    int64_t matches = 0;
    for (size_t i = 0; i + 1 < counts_.size(); i += texts) {
      uint32_t best = 0;
      for (size_t text = 1; text < texts; ++text) best = std::max(best, counts_[i + text]);
      matches += std::min(counts_[i], best);
    }
    return matches;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t gram = 0;
    uint32_t generation = 0;
  };

  // Empties the table by starting a new generation, and keeps it at most half full.
  void ClearTable() {
    if (slots_.size() < 2 * symbols_.size() + 2) {
      size_t size = 256;
      while (size < 2 * symbols_.size() + 2) size *= 2;
      slots_.assign(size, Slot{});
      generation_ = 0;
    }
    ++generation_;
    if (generation_ == 0) {
      std::fill(slots_.begin(), slots_.end(), Slot{});
      generation_ = 1;
    }
  }

  uint32_t FindOrAdd(uint64_t key, uint32_t new_gram) {
    const size_t mask = slots_.size() - 1;
    size_t i = static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & mask;
    while (slots_[i].generation == generation_) {
      if (slots_[i].key == key) return slots_[i].gram;
      i = (i + 1) & mask;
    }
    slots_[i] = {key, new_gram, generation_};
    return new_gram;
  }

  size_t order_ = 0;
  std::vector<uint32_t> symbols_;  // all texts, one after the other
  std::vector<size_t> ends_;       // where each text ends in symbols_
  std::vector<uint32_t> grams_;    // [symbols]: id of the n-gram that starts at each symbol
  std::vector<uint32_t> counts_;   // [grams, texts]
  std::vector<Slot> slots_;
  uint32_t generation_ = 0;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_METRICS_INTERNAL_NGRAM_MATCHER_H_
