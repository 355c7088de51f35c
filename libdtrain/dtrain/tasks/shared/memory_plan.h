// memory_plan.h - which activations a run keeps, so that they fit.
// SPDX-License-Identifier: Apache-2.0
//
// trainer.recompute is taken as it is. `auto` becomes the fastest recomputation whose activations
// fit into trainer.activation_mib. Where that is 0, the budget is what is free: on a GPU all of it,
// on a host half of it divided among its ranks, without what the optimizer will take. A tenth of
// the budget is left for micro-batches that are larger than the planned one.
#ifndef DTRAIN_TASKS_SHARED_MEMORY_PLAN_H_
#define DTRAIN_TASKS_SHARED_MEMORY_PLAN_H_

#include <cstdint>
#include <string>

#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/costs.h"

namespace dtrain {

// The settings about memory (tasks/shared/internal/memory_options.h reads them).
struct MemoryOptions {
  ContextOptions context = {};     // precision and recomputation as configured
  bool plans_recompute = false;    // trainer.recompute=auto
  int64_t activation_mib = 0;      // for activations; 0: what is free
  int64_t micro_batch_tokens = 0;  // for messages
  bool shards_optimizer = false;
  bool keeps_average = false;  // of the weights
};

struct MemoryPlan {
  RecomputePlan recompute = {};
  int64_t budget_bytes = 0;  // of `auto`, else 0

  // "recompute full: 812.0 MiB of activations planned for a micro-batch of 4096 tokens", where
  // `micro_batch` is "4096 tokens".
  std::string Describe(const std::string& micro_batch) const;
};

// For one rank and a micro-batch with these costs; `budget_bytes` is for `auto`.
MemoryPlan PlanMemory(const MemoryOptions& options, const ModelCosts& costs, DeviceType device,
                      int64_t budget_bytes);

// For a run whose parameters are allocated and whose optimizer is not. All ranks get the same plan:
// the smallest budget counts. Collective. Warns where nothing fits.
MemoryPlan PlanRun(const MemoryOptions& options, const ModelCosts& costs, Runtime& runtime);

// The options of a context that recomputes as planned.
ContextOptions WithRecompute(ContextOptions context, const RecomputePlan& plan);

// trainer.activation_mib, or where it is 0 what this rank may take of its device, one of
// `local_ranks` on the host, when the optimizer has taken `optimizer_bytes`.
int64_t ActivationBudget(int64_t activation_mib, const Device& device, int local_ranks,
                         int64_t optimizer_bytes);

// The costs of a run, and those with micro-batches of half the size.
struct HalvedCosts {
  ModelCosts whole;
  ModelCosts half;
  int64_t half_tokens = 0;  // the trainer.micro_batch_tokens that halves
};
// Three ways to need less memory than `plan`, each as a setting with its activations and its cost:
// "trainer.micro_batch_tokens=2048 (activations 812.0 -> 410.3 MiB, the same result)". For the
// message of a device that is full.
std::string MemoryRemedies(const MemoryOptions& options, const MemoryPlan& plan,
                           const HalvedCosts& costs, DeviceType device);

// As trainer.recompute has it: "every_k".
std::string RecomputeName(Recompute recompute);
// The same with its k: "every_k (k = 3)".
std::string DescribeRecompute(const RecomputePlan& plan);

// "12.3 MiB".
std::string FormatMebibytes(int64_t bytes);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_MEMORY_PLAN_H_
