// estimate.cc - from the workload of a configuration to bytes and seconds.
// SPDX-License-Identifier: Apache-2.0
#include "planning/estimate.h"

#include "dtrain/device/cuda/product.h"
#include "dtrain/tasks/registry.h"

namespace dtrain {
namespace {

// Weights, gradients and the optimizer's state.
MemoryEstimate StatesOf(const Workload& workload, int ranks) {
  const ModelParameters& counts = workload.parameters;
  const int64_t trained = counts.trained();
  const DType compute_type = workload.memory.context.compute_type;
  const int shards = workload.memory.shards_optimizer ? ranks : 1;
  const bool is_fp32 = compute_type == DType::kFloat32;
  // Adapters are kept once more, multiplied by their scale.
  const int64_t copied = counts.adapters + (is_fp32 ? counts.composed : counts.total());
  return {.weights = 4 * counts.total(),
          .compute_copy = static_cast<int64_t>(SizeOf(compute_type)) * copied,
          .gradients = 4 * trained,
          .moments = 8 * trained / shards,
          .average = workload.memory.keeps_average ? 4 * trained / shards : 0};
}

// What gradient_reducer.h and local_update_average.h keep and, at the end of a round, take.
int64_t ExchangeBytes(const Workload& workload, int ranks) {
  if (ranks == 1) return 0;
  const ModelParameters& counts = workload.parameters;
  constexpr int64_t kFloat = sizeof(float);
  int64_t bytes = 0;
  const bool on_host = workload.device.type == DeviceType::kCpu;
  if (on_host && workload.trainer.reducer.wire_type != DType::kFloat32) {
    bytes += kFloat / 2 * counts.trained();
  }
  if (workload.trainer.reducer.power_sgd.rank > 0) {
    const int64_t whole = counts.frozen > 0 ? 0 : counts.embeddings + counts.layer_norm;
    bytes += 2 * kFloat * (counts.trained() - whole);
  }
  if (on_host && workload.trainer.sync_every > 1) bytes += 6 * kFloat * counts.trained();
  return bytes;
}

std::vector<RecomputePlan> ChoicesOf(const Workload& workload) {
  const ContextOptions& context = workload.memory.context;
  ActivationOptions activations{.compute_type = context.compute_type,
                                .recompute_every = context.recompute_every,
                                .device = workload.device.type};
  std::vector<RecomputePlan> choices;
  for (const Recompute recompute :
       {Recompute::kNone, Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
    activations.recompute = recompute;
    choices.push_back(CostsOfRecompute(workload.costs, activations));
  }
  return choices;
}

// The time of the busiest rank's share of an update, what is recomputed for it included.
double SecondsOf(const Estimate& estimate, double flops) {
  if (flops == 0.0) return 0.0;
  const double repeated = 1.0 + estimate.plan.recompute.recomputed_flops / estimate.model_flops;
  return estimate.flops_per_update * repeated *
         BusiestShare(estimate.workload.texts_per_batch, estimate.ranks) / flops;
}

}  // namespace

double BusiestShare(int64_t texts, int ranks) {
  if (texts == 0) return 1.0 / ranks;
  const int64_t most = (texts + ranks - 1) / ranks;
  return static_cast<double>(most) / static_cast<double>(texts);
}

StatusOr<Estimate> EstimateRun(const google::protobuf::Message& config,
                               const EstimateOptions& options) {
  const TaskProgram& program = TaskProgramOf(config);
  DT_ASSIGN_OR_RETURN(Workload workload,
                      program.workload(config, {.ranks = options.ranks,
                                                .source_length = options.source_length,
                                                .target_length = options.target_length,
                                                .length_deviation = options.length_deviation}));
  Estimate estimate{.program = std::string(program.name),
                    .ranks = options.ranks,
                    .workload = std::move(workload)};
  const Workload& work = estimate.workload;
  MemoryEstimate& memory = estimate.memory;
  memory = StatesOf(work, options.ranks);
  const bool on_gpu = work.device.type == DeviceType::kCuda;
  if (on_gpu) memory.workspace = static_cast<int64_t>(cuda::kProductWorkspaceBytes);
  int64_t budget = 0;
  if (work.memory.plans_recompute) {
    budget =
        ActivationBudget(work.memory.activation_mib, work.device, options.ranks, memory.states());
  }
  estimate.plan = PlanMemory(work.memory, work.costs, work.device.type, budget);
  memory.positions = work.position_bytes;
  memory.activations = estimate.plan.recompute.peak_bytes;
  memory.evaluation = work.evaluation_bytes;
  memory.exchange = ExchangeBytes(work, options.ranks);
  estimate.choices = ChoicesOf(work);
  estimate.model_flops = work.costs.flops(Recompute::kNone, /*recompute_every=*/1).model();
  estimate.flops_per_update = work.flops_per_token * static_cast<double>(work.tokens_per_batch);
  estimate.seconds_per_update = SecondsOf(estimate, options.flops);
  estimate.checkpoint_bytes =
      4 * work.parameters.total() + (memory.average > 0 ? 12 : 8) * work.parameters.trained();
  return estimate;
}

}  // namespace dtrain
