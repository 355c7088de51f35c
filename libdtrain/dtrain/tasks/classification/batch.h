// batch.h - a packed batch of classified texts: what a BERT classifier computes on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_BATCH_H_
#define DTRAIN_TASKS_CLASSIFICATION_BATCH_H_

#include <cstdint>
#include <vector>

#include "dtrain/data/packed_texts.h"

namespace dtrain {

struct ClassificationBatch : PackedTexts {
  // [n, labels_per_row]: the index of a class, a value to regress to, or 0/1 (soft: between them)
  // for each of several labels. NaN where a row has no label: text to predict only.
  std::vector<float> labels;
  std::vector<float> weights;  // [n]: of the row's loss, 1 unless the data says otherwise
  std::vector<int64_t> rows;   // [n]: which examples of the shard these are

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_BATCH_H_
