// classification_batch.h - a packed batch of classified texts: what a BERT classifier computes on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_CLASSIFICATION_BATCH_H_
#define DTRAIN_DATA_CLASSIFICATION_BATCH_H_

#include <cstdint>
#include <vector>

#include "dtrain/tensor/sequences.h"

namespace dtrain {

// n texts or pairs of texts, no padding. May hold none at all, in the tail of an epoch.
struct ClassificationBatch {
  std::vector<int32_t> token_ids;     // [tokens]: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]
  std::vector<int32_t> type_ids;      // [tokens]: 0 up to the first [SEP] and with it, then 1
  std::vector<int32_t> position_ids;  // [tokens]: from 0 in each sequence
  Sequences sequences;                // n
  // [n, labels_per_row]: the index of a class, a value to regress to, or 0/1 (soft: between them)
  // for each of several labels. NaN where a row has no label: text to predict only.
  std::vector<float> labels;
  std::vector<float> weights;  // [n]: of the row's loss, 1 unless the data says otherwise
  std::vector<int64_t> rows;   // [n]: which examples of the shard these are

  int64_t size() const { return static_cast<int64_t>(rows.size()); }

  // The ids of one more row, those after the first `type0_size` of type 1.
  template <typename Ids>
  void AppendTokens(const Ids& ids, int64_t type0_size) {
    for (int32_t i = 0; i < static_cast<int32_t>(ids.size()); ++i) {
      token_ids.push_back(ids[i]);
      type_ids.push_back(i < type0_size ? 0 : 1);
      position_ids.push_back(i);
    }
  }
};

}  // namespace dtrain

#endif  // DTRAIN_DATA_CLASSIFICATION_BATCH_H_
