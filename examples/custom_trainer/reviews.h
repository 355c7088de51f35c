// reviews.h - made-up reviews: each praises or blames something, and "not" turns it round.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_EXAMPLES_CUSTOM_TRAINER_REVIEWS_H_
#define DTRAIN_EXAMPLES_CUSTOM_TRAINER_REVIEWS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "dtrain/dtrain.h"

// Ids: 0 begins every review, 1 is "not", then kOpinions words of praise, as many of blame, and
// words that say nothing.
inline constexpr int32_t kOpinions = 8;
inline constexpr int64_t kVocabSize = 64;
inline constexpr int64_t kMaxLength = 16;

// A packed batch: no row of padding.
struct Reviews {
  std::vector<int32_t> ids;
  dtrain::Sequences sequences;
  std::vector<int32_t> labels;  // 1: praise
};

// The reviews of a range. A review depends on its number alone, whichever rank reads it, and so
// does what dropout drops of it: the rows of the batch carry numbers of the whole data set.
inline Reviews MakeReviews(const dtrain::SampleRange& range, dtrain::Context& ctx) {
  Reviews batch;
  std::vector<int32_t> offsets = {0};
  std::vector<int32_t> first_numbers;
  for (int64_t number = range.begin; number < range.end; number += range.stride) {
    dtrain::RandomStream random({.seed = 7, .step = static_cast<uint32_t>(number)});
    const auto below = [&](int64_t bound) {
      return static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(bound)));
    };
    const int32_t label = below(2);
    const bool negated = below(2) == 1;
    const int32_t words = 4 + below(8);
    const int32_t place = below(words);
    batch.ids.push_back(0);
    for (int32_t word = 0; word < words; ++word) {
      if (word == place && negated) batch.ids.push_back(1);
      const bool praise = (label == 1) != negated;
      batch.ids.push_back(word == place
                              ? 2 + below(kOpinions) + (praise ? 0 : kOpinions)
                              : 2 + 2 * kOpinions + below(kVocabSize - 2 - 2 * kOpinions));
    }
    batch.labels.push_back(label);
    offsets.push_back(static_cast<int32_t>(batch.ids.size()));
    first_numbers.push_back(static_cast<int32_t>(number * kMaxLength));
  }
  batch.sequences = dtrain::Sequences(std::move(offsets));
  batch.sequences.set_first_numbers(std::move(first_numbers));
  batch.sequences.set_row_numbers(ctx.Upload(batch.sequences.NumberRows()));
  return batch;
}

#endif  // DTRAIN_EXAMPLES_CUSTOM_TRAINER_REVIEWS_H_
