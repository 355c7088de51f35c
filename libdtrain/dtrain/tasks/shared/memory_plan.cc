// memory_plan.cc - measures what is free, and asks the model's formulas.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {
namespace {

constexpr double kMebibyte = 1 << 20;
// The share of a budget for `auto` that plans may use.
constexpr double kUsableShare = 0.9;

// The number at the beginning of a file, or -1.
int64_t ReadNumber(const char* path) {
  int64_t number = -1;
  std::ifstream(path) >> number;
  return number > 0 ? number : -1;
}

// What this host, or the control group that this process is confined to, has free.
int64_t FreeHostBytes() {
  int64_t free = std::numeric_limits<int64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    long long kibibytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kibibytes) == 1)
      free = kibibytes * 1024;
  }
  const int64_t limit = ReadNumber("/sys/fs/cgroup/memory.max");
  const int64_t current = ReadNumber("/sys/fs/cgroup/memory.current");
  if (limit > 0 && current > 0) free = std::min(free, std::max<int64_t>(limit - current, 0));
  return free;
}

ActivationOptions ActivationsOf(const ContextOptions& context, DeviceType device) {
  return {.compute_type = context.compute_type,
          .recompute = context.recompute,
          .recompute_every = context.recompute_every,
          .device = device};
}

}  // namespace

std::string FormatMebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / kMebibyte);
}

std::string RecomputeName(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "none";
    case Recompute::kCheap:
      return "cheap";
    case Recompute::kEveryK:
      return "every_k";
    case Recompute::kFull:
      break;
  }
  return "full";
}

std::string DescribeRecompute(const RecomputePlan& plan) {
  std::string name = RecomputeName(plan.recompute);
  if (plan.recompute != Recompute::kEveryK) return name;
  return absl::StrFormat("%s (k = %d)", name, plan.recompute_every);
}

std::string MemoryPlan::Describe(const std::string& micro_batch) const {
  std::string text =
      absl::StrFormat("recompute %s%s: %s of activations planned for a micro-batch of %s",
                      DescribeRecompute(recompute), budget_bytes > 0 ? " (auto)" : "",
                      FormatMebibytes(recompute.peak_bytes), micro_batch);
  if (budget_bytes > 0) text += ", budget " + FormatMebibytes(budget_bytes);
  return text;
}

ContextOptions WithRecompute(ContextOptions context, const RecomputePlan& plan) {
  context.recompute = plan.recompute;
  context.recompute_every = plan.recompute_every;
  return context;
}

int64_t ActivationBudget(int64_t activation_mib, const Device& device, int local_ranks,
                         int64_t optimizer_bytes) {
  if (activation_mib > 0) return activation_mib << 20;
  int64_t budget = 0;
  if (device.type == DeviceType::kCpu) {
    budget = (FreeHostBytes() / local_ranks - optimizer_bytes) / 2;
  } else if constexpr (kWithCuda) {
    budget = static_cast<int64_t>(cuda::Properties(device).free_bytes) - optimizer_bytes;
  }
  return std::max<int64_t>(budget, 1);
}

MemoryPlan PlanMemory(const MemoryOptions& options, const ModelCosts& costs, DeviceType device,
                      int64_t budget_bytes) {
  const ActivationOptions activations = ActivationsOf(options.context, device);
  if (!options.plans_recompute) return {.recompute = CostsOfRecompute(costs, activations)};
  const double usable = kUsableShare * static_cast<double>(budget_bytes);
  return {.recompute = PlanRecompute(costs, activations, static_cast<int64_t>(usable)),
          .budget_bytes = budget_bytes};
}

MemoryPlan PlanRun(const MemoryOptions& options, const ModelCosts& costs, Runtime& runtime) {
  const int64_t states = options.keeps_average ? 3 : 2;
  const int shards = options.shards_optimizer ? runtime.comm.size() : 1;
  const int64_t optimizer_bytes = states * 4 * costs.trained_parameters / shards;
  const int64_t budget = runtime.comm.AllReduceValue(
      ActivationBudget(options.activation_mib, runtime.device, runtime.comm.topology().local_size(),
                       optimizer_bytes),
      ReduceOp::kMin);
  const MemoryPlan plan = PlanMemory(options, costs, runtime.device.type, budget);
  if (!plan.recompute.fits && runtime.comm.is_root()) {
    LogWarning(absl::StrFormat(
        "activations take %s even with recompute %s, and their budget is %s, a tenth of it left "
        "free: training may run out of memory; lower trainer.micro_batch_tokens (%d), or raise "
        "trainer.activation_mib",
        FormatMebibytes(plan.recompute.peak_bytes), DescribeRecompute(plan.recompute),
        FormatMebibytes(budget), options.micro_batch_tokens));
  }
  return plan;
}

std::string MemoryRemedies(const MemoryOptions& options, const MemoryPlan& plan,
                           const HalvedCosts& costs, DeviceType device) {
  const ActivationOptions now =
      ActivationsOf(WithRecompute(options.context, plan.recompute), device);
  const ModelCosts& whole = costs.whole;
  const auto bytes = [](const ModelCosts& of, const ActivationOptions& activations) {
    return FormatMebibytes(of.peak_bytes(activations));
  };
  const RecomputePlan least = PlanRecompute(whole, now, /*budget_bytes=*/0);
  ActivationOptions deepest = now;
  deepest.recompute = least.recompute;
  deepest.recompute_every = least.recompute_every;
  std::string recompute = "trainer.recompute=" + RecomputeName(least.recompute);
  if (least.recompute == Recompute::kEveryK) {
    recompute += absl::StrFormat(" trainer.recompute_every=%d", least.recompute_every);
  }
  const double forward = whole.flops(Recompute::kNone, least.recompute_every).model();
  const double flops = 100.0 * (least.recomputed_flops - plan.recompute.recomputed_flops) / forward;
  const std::string text = absl::StrFormat(
      "activations are planned with %s; less take (1) trainer.micro_batch_tokens=%d: %s, the same "
      "result; (2) %s: %s, %.0f %% more FLOPs, the same result; (3) ",
      bytes(whole, now), costs.half_tokens, bytes(costs.half, now), recompute,
      bytes(whole, deepest), std::max(flops, 0.0));
  if (now.compute_type != DType::kFloat32) {
    return text + absl::StrFormat("both: %s", bytes(costs.half, deepest));
  }
  ActivationOptions narrow = now;
  narrow.compute_type = DType::kBFloat16;
  return text + absl::StrFormat("trainer.precision=bf16: %s, and %s for a copy of the weights",
                                bytes(whole, narrow), FormatMebibytes(2 * whole.parameters));
}

}  // namespace dtrain
