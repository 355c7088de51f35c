// batch.h - a packed batch of sentences with tags: what a BERT tagger computes on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_BATCH_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_BATCH_H_

#include <cstdint>
#include <vector>

#include "dtrain/data/packed_texts.h"

namespace dtrain {

// The first piece of each word stands for the word; the head reads nothing else.
struct TaggingBatch : PackedTexts {
  std::vector<int32_t> word_rows;           // [words]: tokens of the batch, in rising order
  std::vector<int32_t> word_offsets = {0};  // [n + 1] into word_rows; each row has a word
  std::vector<float> tags;                  // [words]: numbers of tags; NaN where a word has none

  int64_t words() const { return static_cast<int64_t>(word_rows.size()); }
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_BATCH_H_
