// micro_batches.cc - as many parts as the longest texts need.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/micro_batches.h"

#include <algorithm>

#include "dtrain/train/task.h"

namespace dtrain {

int MicroBatchesOf(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                   int ranks) {
  const int64_t micro = std::max<int64_t>(micro_batch_tokens, 1);
  if (batch.samples_per_batch > 0) {
    const int64_t samples = (batch.samples_per_batch + ranks - 1) / ranks;
    const int64_t fitting = std::max<int64_t>(micro / std::max<int64_t>(longest, 1), 1);
    return static_cast<int>(std::min((samples + fitting - 1) / fitting, kMaxMicroBatches));
  }
  const int64_t share = (batch.tokens_per_batch + ranks - 1) / ranks;
  return static_cast<int>(std::min((share + micro - 1) / micro, kMaxMicroBatches));
}

}  // namespace dtrain
