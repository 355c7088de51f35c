// batch.h - a packed batch of labelled texts, the input of a BERT classifier.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_BATCH_H_
#define DTRAIN_TASKS_CLASSIFICATION_BATCH_H_

#include <cstdint>
#include <vector>

#include "dtrain/data/packed_texts.h"

namespace dtrain {

struct ClassificationBatch : PackedTexts {
  // [n, labels_per_row]: the index of a class, a value for regression, or 0/1 (or a value between)
  // for each of several labels. NaN if the row has no label and is only predicted.
  std::vector<float> labels;
  std::vector<float> weights;  // [n]: weight of the row's loss; 1 unless the data says otherwise
  std::vector<int64_t> rows;   // [n]: indices of the examples in the shard

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_BATCH_H_
