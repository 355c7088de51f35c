// bert_costs.h - the micro-batch that costs of models on a BERT encoder are counted for.
// SPDX-License-Identifier: Apache-2.0
//
// The costs themselves are counted beside each task's head: tasks/*/head_costs.h.
#ifndef DTRAIN_MODELS_BERT_COSTS_H_
#define DTRAIN_MODELS_BERT_COSTS_H_

#include <cstdint>

#include "dtrain/nn/costs.h"

namespace dtrain {

// A micro-batch; all texts count as equally long.
struct BertBatch {
  int64_t tokens = 4096;
  int64_t texts = 32;
};

}  // namespace dtrain

#endif  // DTRAIN_MODELS_BERT_COSTS_H_
