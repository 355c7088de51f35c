// bert_memory.h - the micro-batches that a BERT's memory is planned for.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_BERT_MEMORY_H_
#define DTRAIN_TASKS_SHARED_BERT_MEMORY_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "dtrain/models/bert_costs.h"
#include "dtrain/tasks/shared/memory_plan.h"

namespace dtrain::proto {
class BertTrainerConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Numbers of tokens of the texts that a BERT trains on.
struct TextLengths {
  double mean = 128.0;
  double deviation = 0.0;  // standard deviation
  int64_t longest = 128;
};
TextLengths TextLengthsOf(std::span<const int32_t> lengths);
// The same from the number of texts with 0, 1, 2 ... tokens.
TextLengths TextLengthsOfCounts(std::span<const int64_t> counts);

// A rank's average micro-batch. Where an update is a number of texts, the micro-batch is one whose
// texts together are four standard deviations longer than the mean.
BertBatch MicroBatchOf(const proto::BertTrainerConfig& config, int ranks,
                       const TextLengths& lengths);

// "4096 tokens".
std::string TokensText(const BertBatch& batch);

// A model's costs for a micro-batch.
using BertCosts = std::function<ModelCosts(const BertBatch&)>;
// `max_length`: tokens of the longest text.
std::string BertMemoryRemedies(const proto::BertTrainerConfig& trainer,
                               const MemoryOptions& options, const MemoryPlan& plan,
                               const BertCosts& costs, const BertBatch& batch, int64_t max_length,
                               DeviceType device);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_BERT_MEMORY_H_
