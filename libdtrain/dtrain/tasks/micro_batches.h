// micro_batches.h - into how many parts a rank cuts its share of an update of texts.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_MICRO_BATCHES_H_
#define DTRAIN_TASKS_MICRO_BATCHES_H_

#include <cstdint>

#include "dtrain/data/batching.h"

namespace dtrain {

// The parts a rank's share of an update is cut into, so that none has more than
// `micro_batch_tokens`, whichever texts of at most `longest` tokens it holds.
int MicroBatchesOf(const BatchOptions& batch, int64_t micro_batch_tokens, int64_t longest,
                   int ranks);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_MICRO_BATCHES_H_
