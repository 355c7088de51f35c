// batch.h - a packed batch of masked texts: what BERT is pre-trained on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_BATCH_H_
#define DTRAIN_TASKS_PRETRAINING_BATCH_H_

#include <cstdint>
#include <vector>

#include "dtrain/data/packed_texts.h"

namespace dtrain {

// n texts, or pairs of texts of which the second may follow the first in its document. May hold
// none at all, in the tail of an epoch.
struct PretrainingBatch : PackedTexts {
  std::vector<int32_t> masked_rows;  // [masked]: rows of token_ids that are to be guessed, rising
  std::vector<int32_t> masked_ids;   // [masked]: what stood there
  // [n]: 0 where the second text follows the first, 1 where it is a random one (as
  // google-research/bert has them); empty where examples are single texts.
  std::vector<float> next_labels;
  // [n], or empty likewise: how many masked tokens' losses one guess of these counts as. Losses are
  // divided by the masked tokens of an update, so (masked tokens / texts) of the whole update gives
  // the mean over tokens plus the mean over pairs.
  std::vector<float> next_weights;

  int64_t size() const { return sequences.count(); }
  int64_t masked() const { return static_cast<int64_t>(masked_rows.size()); }
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_BATCH_H_
