// micro_batches.h - into how many parts a rank cuts its share of an update of texts.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TRAIN_MICRO_BATCHES_H_
#define DTRAIN_TRAIN_MICRO_BATCHES_H_

#include <cstdint>

#include "dtrain/base/status.h"
#include "dtrain/data/batching.h"

namespace dtrain {

// The parts a rank's share of an update is cut into, so that none has more than
// `micro_batch_tokens`, whichever texts of at most `longest` tokens it holds. At most
// kMaxMicroBatches (train/task.h).
int MicroBatchesOf(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                   int ranks);
// UsageError where so many are not enough, so that some would have more than `micro_batch_tokens`.
Status CheckMicroBatches(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                         int ranks);

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_MICRO_BATCHES_H_
