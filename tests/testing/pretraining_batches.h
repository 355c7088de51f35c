// pretraining_batches.h - random packed batches of masked texts for tests of BERT's pre-training.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_PRETRAINING_BATCHES_H_
#define DTRAIN_TESTS_TESTING_PRETRAINING_BATCHES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tasks/pretraining/batch.h"
#include "dtrain/tasks/pretraining/head.h"

namespace dtrain::testing {

// Texts [begin, end) of a set that `seed` stands for: each is the same whatever the range. Has
// between 1 and 1/3 of its tokens masked.
inline PretrainingBatch RandomMaskedTexts(const BertPretrainingOptions& options, int64_t begin,
                                          int64_t end, int max_length, uint64_t seed,
                                          float next_weight = 1.0f) {
  PretrainingBatch batch;
  std::vector<int32_t> offsets = {0};
  for (int64_t row = begin; row < end; ++row) {
    RandomStream random({.seed = seed, .site = static_cast<uint32_t>(row)});
    const auto below = [&](int64_t bound) {
      return static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(bound)));
    };
    std::vector<int32_t> ids(static_cast<size_t>(3 + below(max_length - 2)));
    for (int32_t& id : ids) id = below(options.bert.vocab_size);
    for (int32_t i = below(3); i < static_cast<int32_t>(ids.size()); i += 3) {
      batch.masked_rows.push_back(offsets.back() + i);
      batch.masked_ids.push_back(below(options.bert.vocab_size));
    }
    const auto size = static_cast<int32_t>(ids.size());
    batch.AppendTokens(ids, options.next_sentence ? 1 + below(size - 1) : size);
    offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
    if (options.next_sentence) {
      batch.next_labels.push_back(static_cast<float>(below(2)));
      batch.next_weights.push_back(next_weight);
    }
  }
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_PRETRAINING_BATCHES_H_
