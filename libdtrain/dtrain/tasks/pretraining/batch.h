// batch.h - a packed batch of masked texts, the input of BERT's pre-training.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_BATCH_H_
#define DTRAIN_TASKS_PRETRAINING_BATCH_H_

#include <cstdint>
#include <vector>

#include "dtrain/data/packed_texts.h"

namespace dtrain {

// n texts, or pairs of texts in which the second may follow the first in its document. At the end
// of an epoch it may be empty.
struct PretrainingBatch : PackedTexts {
  std::vector<int32_t> masked_rows;  // [masked]: rows of token_ids to predict, ascending
  std::vector<int32_t> masked_ids;   // [masked]: the original ids there
  // [n]: 0 if the second text follows the first, 1 if it is a random one, as in
  // google-research/bert. Empty if examples are single texts.
  std::vector<float> next_labels;
  // [n] or empty: the weight of each next-sentence loss, in units of a masked token's loss. Losses
  // are divided by the number of masked tokens of an update. So the weight (masked tokens / texts)
  // of the whole update gives the mean over tokens plus the mean over pairs.
  std::vector<float> next_weights;

  int64_t size() const { return sequences.count(); }
  int64_t masked() const { return static_cast<int64_t>(masked_rows.size()); }
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_BATCH_H_
