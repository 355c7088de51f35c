// classification_batches.h - random packed batches for tests of BERT classifiers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_CLASSIFICATION_BATCHES_H_
#define DTRAIN_TESTS_TESTING_CLASSIFICATION_BATCHES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tasks/classification/batch.h"
#include "dtrain/tasks/classification/head.h"

namespace dtrain::testing {

// Rows [begin, end) of a set that `seed` stands for: each row is the same whatever the range.
inline ClassificationBatch RandomRows(const BertClassifierOptions& options, int64_t begin,
                                      int64_t end, int max_length, uint64_t seed) {
  ClassificationBatch batch;
  std::vector<int32_t> offsets = {0};
  for (int64_t row = begin; row < end; ++row) {
    RandomStream random({.seed = seed, .site = static_cast<uint32_t>(row)});
    const auto length = static_cast<int32_t>(2 + random.NextBelow(uint32_t(max_length - 1)));
    const auto second = static_cast<int32_t>(random.NextBelow(uint32_t(length) + 1));
    for (int32_t t = 0; t < length; ++t) {
      batch.token_ids.push_back(
          static_cast<int32_t>(random.NextBelow(uint32_t(options.bert.vocab_size))));
      batch.type_ids.push_back(t < second ? 0 : 1);
      batch.position_ids.push_back(t);
    }
    offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
    const bool classes = options.loss == ClassificationLossKind::kSoftmax;
    for (int64_t i = 0; i < options.labels_per_row(); ++i) {
      batch.labels.push_back(
          classes ? static_cast<float>(random.NextBelow(uint32_t(options.num_labels)))
                  : random.NextUniform());
    }
    batch.weights.push_back(0.5f + random.NextUniform());
    batch.rows.push_back(row);
  }
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_CLASSIFICATION_BATCHES_H_
