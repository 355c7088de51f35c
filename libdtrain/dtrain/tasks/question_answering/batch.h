// batch.h - a packed batch of questions with their contexts: what a span model computes on.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_BATCH_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_BATCH_H_

#include <cstdint>
#include <vector>

#include "dtrain/data/packed_texts.h"

namespace dtrain {

// n rows [CLS] question [SEP] context [SEP].
struct SpanBatch : PackedTexts {
  // [2, n]: the answers' first tokens, then their last ones, counted from the row's first token;
  // 0, [CLS], where the context has no answer, and negative where nobody knows.
  std::vector<int32_t> targets;
  std::vector<int64_t> rows;  // [n]: which windows of the set these are

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_BATCH_H_
