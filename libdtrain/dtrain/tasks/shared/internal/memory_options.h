// memory_options.h - what the sections `trainer` and `optimizer` say about memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_MEMORY_OPTIONS_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_MEMORY_OPTIONS_H_

#include "dtrain/optimizer.pb.h"
#include "dtrain/tasks/shared/memory_plan.h"
#include "dtrain/trainer.pb.h"

namespace dtrain::internal {

// `context` is made from the same sections.
template <typename TrainerConfig, typename OptimizerConfig>
MemoryOptions MemoryOptionsOf(const TrainerConfig& trainer, const OptimizerConfig& optimizer,
                              const ContextOptions& context) {
  return {.context = context,
          .plans_recompute = trainer.recompute() == proto::TrainerConfig::auto_,
          .activation_mib = trainer.activation_mib(),
          .micro_batch_tokens = trainer.micro_batch_tokens(),
          .shards_optimizer = trainer.shard_optimizer(),
          .keeps_average = optimizer.ema_decay() > 0.0f};
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_MEMORY_OPTIONS_H_
