// micro_batches.h - how many micro-batches a rank's share of an update is divided into.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_MICRO_BATCHES_H_
#define DTRAIN_TRAIN_MICRO_BATCHES_H_

#include <cstdint>

#include "dtrain/base/status.h"
#include "dtrain/data/batching.h"

namespace dtrain {

// The number of micro-batches, so that none has more than `micro_batch_tokens` for any texts of at
// most `longest` tokens. At most kMaxMicroBatches (train/task.h).
int MicroBatchesOf(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                   int ranks);
// UsageError if that maximum is too small, so that some would exceed `micro_batch_tokens`.
Status CheckMicroBatches(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                         int ranks);

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_MICRO_BATCHES_H_
