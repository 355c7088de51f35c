// memory_plan.h - which activations a run keeps, so that they fit.
// SPDX-License-Identifier: Apache-2.0
//
// trainer.recompute is taken as it is; `auto` becomes the fastest recomputation whose activations
// fit into trainer.activation_mib, or else into what is free: on a GPU all of it, on a host half of
// it divided among its ranks, without what the optimizer will take. A tenth of that is left for
// micro-batches that are larger than the planned one.
#ifndef DTRAIN_TASKS_SHARED_MEMORY_PLAN_H_
#define DTRAIN_TASKS_SHARED_MEMORY_PLAN_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "dtrain/launch/runtime.h"
#include "dtrain/models/bert_costs.h"
#include "dtrain/models/seq2seq_costs.h"
#include "dtrain/nn/context.h"
#include "dtrain/tasks/translation/token_shard.h"

namespace dtrain::proto {
class BertTrainerConfig;
class NmtConfig;
class OptimizerConfig;
class TrainerConfig;
}  // namespace dtrain::proto

namespace dtrain {

// Mean lengths of a corpus in tokens, ends of sentence included.
struct MeanLengths {
  double source = 32.0;
  double target = 32.0;
};
MeanLengths MeanLengthsOf(const TokenShard& shard);

// Tokens of the texts that a BERT trains on.
struct TextLengths {
  double mean = 128.0;
  double deviation = 0.0;
  int64_t longest = 128;
};
TextLengths TextLengthsOf(std::span<const int32_t> lengths);
// The same of how many texts there are of 0, 1, 2 ... tokens.
TextLengths TextLengthsOfCounts(std::span<const int64_t> counts);

// A run that trains a BERT, whatever its head. What it refers to outlives it.
struct BertWorkload {
  const proto::BertTrainerConfig& trainer;
  int64_t max_length = 0;  // of a text
  std::function<ModelCosts(const BertBatch&)> costs;
};

// What a rank's micro-batches are cut to, on average.
Seq2SeqBatch MicroBatchOf(const proto::TrainerConfig& config, int ranks,
                          const MeanLengths& lengths);
// Where updates are so many texts, one whose texts together are four standard deviations longer
// than the mean.
BertBatch MicroBatchOf(const proto::BertTrainerConfig& config, int ranks,
                       const TextLengths& lengths);

// "4096 + 4096 tokens", "4096 tokens".
std::string TokensText(const Seq2SeqBatch& batch);
std::string TokensText(const BertBatch& batch);

// "recompute full: 812.0 MiB of activations planned for a micro-batch of 4096 + 4096 tokens ...".
std::string DescribePlan(const RecomputePlan& recompute, int64_t budget_bytes,
                         const std::string& tokens);

template <typename Batch>
struct MemoryPlanOf {
  RecomputePlan recompute = {};
  Batch batch = {};
  int64_t budget_bytes = 0;  // of `auto`, else 0

  std::string Describe() const { return DescribePlan(recompute, budget_bytes, TokensText(batch)); }
};
using MemoryPlan = MemoryPlanOf<Seq2SeqBatch>;
using BertMemoryPlan = MemoryPlanOf<BertBatch>;

// As trainer.recompute has it: "every_k".
std::string RecomputeName(Recompute recompute);
// The same, and which k: "every_k (k = 3)".
std::string DescribeRecompute(const RecomputePlan& plan);

// "12.3 MiB".
std::string FormatMebibytes(int64_t bytes);

// Of one rank, `budget_bytes` for `auto`.
MemoryPlan PlanMemory(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                      const Seq2SeqBatch& batch, DeviceType device, int64_t budget_bytes);
BertMemoryPlan PlanMemory(const BertWorkload& work, const BertBatch& batch, DeviceType device,
                          int64_t budget_bytes);

// trainer.activation_mib, or where it is 0 what this rank may take of its device, one of
// `local_ranks` on the host, when the optimizer has taken `optimizer_bytes`.
int64_t ActivationBudget(int64_t activation_mib, const Device& device, int local_ranks,
                         int64_t optimizer_bytes);

// Three ways to need less memory than `plan`, each as a setting with what it makes of the
// activations and what it costs: "trainer.micro_batch_tokens=2048 (activations 812.0 -> 410.3 MiB,
// the same result)". For the message of a device that is full.
std::string MemoryRemedies(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                           const MemoryPlan& plan, DeviceType device);
std::string MemoryRemedies(const BertWorkload& work, const BertMemoryPlan& plan, DeviceType device);

// Of a run whose parameters are allocated and whose optimizer is not. The same on all ranks: the
// smallest budget counts. Collective. Warns where nothing fits.
MemoryPlan PlanRun(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                   const TokenShard& train, Runtime& runtime);
BertMemoryPlan PlanRun(const BertWorkload& work, const proto::OptimizerConfig& optimizer,
                       const TextLengths& lengths, Runtime& runtime);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_MEMORY_PLAN_H_
