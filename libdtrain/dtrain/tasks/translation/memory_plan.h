// memory_plan.h - the micro-batches that a translation run's memory is planned for.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_TRANSLATION_MEMORY_PLAN_H_
#define DTRAIN_TASKS_TRANSLATION_MEMORY_PLAN_H_

#include <string>

#include "dtrain/models/seq2seq_costs.h"
#include "dtrain/tasks/shared/memory_plan.h"
#include "dtrain/tasks/translation/token_shard.h"

namespace dtrain::proto {
class NmtConfig;
class TrainerConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Mean lengths of a corpus in tokens, ends of sentence included.
struct MeanLengths {
  double source = 32.0;
  double target = 32.0;
};
MeanLengths MeanLengthsOf(const TokenShard& shard);

// A rank's average micro-batch.
Seq2SeqBatch MicroBatchOf(const proto::TrainerConfig& config, int ranks,
                          const MeanLengths& lengths);

// "4096 + 4096 tokens".
std::string TokensText(const Seq2SeqBatch& batch);

// The configuration's settings about memory.
MemoryOptions MemoryOptionsOf(const proto::NmtConfig& config);

// MemoryRemedies() of tasks/shared/memory_plan.h for a run that planned with `batch`.
std::string MemoryRemedies(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                           const Seq2SeqBatch& batch, const MemoryPlan& plan, DeviceType device);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TRANSLATION_MEMORY_PLAN_H_
