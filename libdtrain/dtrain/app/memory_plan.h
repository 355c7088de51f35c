// memory_plan.h - which activations a translation run keeps, so that they fit.
// SPDX-License-Identifier: Apache-2.0
//
// trainer.recompute is taken as it is; `auto` becomes the fastest recomputation whose activations
// fit into trainer.activation_mib, or else into what is free: on a GPU all of it, on a host half of
// it divided among its ranks, without what the optimizer will take. A tenth of that is left for
// micro-batches that are larger than the mean one.
#ifndef DTRAIN_APP_MEMORY_PLAN_H_
#define DTRAIN_APP_MEMORY_PLAN_H_

#include <cstdint>
#include <string>

#include "dtrain/app/runtime.h"
#include "dtrain/data/token_shard.h"
#include "dtrain/models/seq2seq_costs.h"
#include "dtrain/nn/context.h"

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

// What a rank's micro-batches are cut to, on average.
Seq2SeqBatch MicroBatchOf(const proto::TrainerConfig& config, int ranks,
                          const MeanLengths& lengths);

struct MemoryPlan {
  RecomputePlan recompute = {};
  Seq2SeqBatch batch = {};
  int64_t budget_bytes = 0;  // of `auto`, else 0

  // "recompute full: 812.0 MiB of activations planned for a micro-batch of 4096 + 4096 tokens ...".
  std::string Describe() const;
};

// As trainer.recompute has it: "every_k".
std::string RecomputeName(Recompute recompute);
// The same, and which k: "every_k (k = 3)".
std::string DescribeRecompute(const RecomputePlan& plan);

// "12.3 MiB".
std::string FormatMebibytes(int64_t bytes);

// Of one rank, `budget_bytes` for `auto`.
MemoryPlan PlanMemory(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                      const Seq2SeqBatch& batch, DeviceType device, int64_t budget_bytes);

// The bytes `auto` may use on this rank, `optimizer_bytes` of which are not taken yet.
int64_t ActivationBudget(const proto::TrainerConfig& config, const Device& device, int local_ranks,
                         int64_t optimizer_bytes);

// Three ways to need less memory than `plan`, each as a setting with what it makes of the
// activations and what it costs: "trainer.micro_batch_tokens=2048 (activations 812.0 -> 410.3 MiB,
// the same result)". For the message of a device that is full.
std::string MemoryRemedies(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                           const MemoryPlan& plan, DeviceType device);

// Of a run whose parameters are allocated and whose optimizer is not. The same on all ranks: the
// smallest budget counts. Collective. Warns where nothing fits.
MemoryPlan PlanRun(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                   const TokenShard& train, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_APP_MEMORY_PLAN_H_
