// batch.h - a packed batch of questions with contexts, the input of a span model.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_BATCH_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_BATCH_H_

#include <cstdint>
#include <vector>

#include "dtrain/data/packed_texts.h"

namespace dtrain {

// n rows of the form [CLS] question [SEP] context [SEP].
struct SpanBatch : PackedTexts {
  // [2, n]: the first tokens of the answers, then their last tokens, counted from the row's first
  // token. 0, which is [CLS], if the context has no answer; negative if the answer is unknown.
  std::vector<int32_t> targets;
  std::vector<int64_t> rows;  // [n]: indices of the windows in the set

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_BATCH_H_
