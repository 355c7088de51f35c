// memory_plan.cc - measures what is free, and asks the model's formulas.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/bert.pb.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/translation/options.h"
#include "dtrain/train/micro_batches.h"

namespace dtrain {
namespace {

constexpr double kMebibyte = 1 << 20;
// Of a budget for `auto` that plans may use.
constexpr double kUsableShare = 0.9;

// The number a file begins with, or -1.
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

// PlanMemory() of any model.
template <typename TrainerConfig, typename Batch>
MemoryPlanOf<Batch> PlanFor(const TrainerConfig& config, const ContextOptions& context,
                            const ModelCosts& costs, const Batch& batch, DeviceType device,
                            int64_t budget_bytes) {
  const ActivationOptions activations = ActivationsOf(context, device);
  MemoryPlanOf<Batch> plan{.batch = batch};
  if (config.recompute() == proto::TrainerConfig::auto_) {
    plan.budget_bytes = budget_bytes;
    const double usable = kUsableShare * static_cast<double>(budget_bytes);
    plan.recompute = PlanRecompute(costs, activations, static_cast<int64_t>(usable));
  } else {
    plan.recompute = CostsOfRecompute(costs, activations);
  }
  return plan;
}

// PlanRun() of any model; `plan_with` plans with a budget in bytes.
template <typename TrainerConfig, typename PlanWith>
auto PlanFor(const TrainerConfig& trainer, const proto::OptimizerConfig& optimizer,
             int64_t parameters, const PlanWith& plan_with, Runtime& runtime) {
  const int64_t states = optimizer.ema_decay() > 0.0f ? 3 : 2;
  const int shards = trainer.shard_optimizer() ? runtime.comm.size() : 1;
  const int64_t optimizer_bytes = states * 4 * parameters / shards;
  const int64_t budget = runtime.comm.AllReduceValue(
      ActivationBudget(trainer.activation_mib(), runtime.device,
                       runtime.comm.topology().local_size(), optimizer_bytes),
      ReduceOp::kMin);
  const auto plan = plan_with(budget);
  if (!plan.recompute.fits && runtime.comm.is_root()) {
    LogWarning(absl::StrFormat(
        "activations take %s even with recompute %s, and their budget is %s, a tenth of it left "
        "free: training may run out of memory; lower trainer.micro_batch_tokens (%d), or raise "
        "trainer.activation_mib",
        FormatMebibytes(plan.recompute.peak_bytes), DescribeRecompute(plan.recompute),
        FormatMebibytes(budget), trainer.micro_batch_tokens()));
  }
  return plan;
}

// MemoryRemedies() of any model: `half` is what trainer.micro_batch_tokens=micro_tokens makes.
std::string RemediesText(const ModelCosts& costs, const ModelCosts& half, int64_t micro_tokens,
                         const ActivationOptions& now, const RecomputePlan& plan) {
  const auto bytes = [](const ModelCosts& of, const ActivationOptions& activations) {
    return FormatMebibytes(of.peak_bytes(activations));
  };
  const RecomputePlan least = PlanRecompute(costs, now, /*budget_bytes=*/0);
  ActivationOptions deepest = now;
  deepest.recompute = least.recompute;
  deepest.recompute_every = least.recompute_every;
  std::string recompute = "trainer.recompute=" + RecomputeName(least.recompute);
  if (least.recompute == Recompute::kEveryK) {
    recompute += absl::StrFormat(" trainer.recompute_every=%d", least.recompute_every);
  }
  const double forward = costs.flops(Recompute::kNone, least.recompute_every).model();
  const double flops = 100.0 * (least.recomputed_flops - plan.recomputed_flops) / forward;
  const std::string text = absl::StrFormat(
      "activations are planned with %s; less take (1) trainer.micro_batch_tokens=%d: %s, the same "
      "result; (2) %s: %s, %.0f %% more FLOPs, the same result; (3) ",
      bytes(costs, now), micro_tokens, bytes(half, now), recompute, bytes(costs, deepest),
      std::max(flops, 0.0));
  if (now.compute_type != DType::kFloat32) {
    return text + absl::StrFormat("both: %s", bytes(half, deepest));
  }
  ActivationOptions narrow = now;
  narrow.compute_type = DType::kBFloat16;
  return text + absl::StrFormat("trainer.precision=bf16: %s, and %s for a copy of the weights",
                                bytes(costs, narrow), FormatMebibytes(2 * costs.parameters));
}

}  // namespace

std::string FormatMebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / kMebibyte);
}

TextLengths TextLengthsOf(std::span<const int32_t> texts) {
  const auto longest = std::max_element(texts.begin(), texts.end());
  if (longest == texts.end()) return TextLengthsOfCounts({});
  std::vector<int64_t> counts(static_cast<size_t>(*longest) + 1);
  for (const int32_t length : texts) ++counts[static_cast<size_t>(length)];
  return TextLengthsOfCounts(counts);
}

TextLengths TextLengthsOfCounts(std::span<const int64_t> counts) {
  TextLengths lengths{.mean = 0.0, .longest = 1};
  const auto texts = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  double squares = 0.0;
  for (size_t length = 0; length < counts.size(); ++length) {
    if (counts[length] == 0) continue;
    const auto tokens = static_cast<double>(length);
    const double share = static_cast<double>(counts[length]) / static_cast<double>(texts);
    lengths.mean += tokens * share;
    squares += tokens * tokens * share;
    lengths.longest = std::max(lengths.longest, static_cast<int64_t>(length));
  }
  lengths.deviation = std::sqrt(std::max(squares - lengths.mean * lengths.mean, 0.0));
  return lengths;
}

MeanLengths MeanLengthsOf(const TokenShard& shard) {
  const auto pairs = static_cast<double>(std::max<int64_t>(shard.size(), 1));
  return {.source = static_cast<double>(shard.source_tokens()) / pairs + 1.0,
          .target = static_cast<double>(shard.target_tokens()) / pairs + 1.0};
}

Seq2SeqBatch MicroBatchOf(const proto::TrainerConfig& config, int ranks,
                          const MeanLengths& lengths) {
  const int64_t share = (config.tokens_per_batch() + ranks - 1) / ranks;
  const int64_t micro_batches =
      (share + config.micro_batch_tokens() - 1) / config.micro_batch_tokens();
  const int64_t target = (share + micro_batches - 1) / micro_batches;
  const double source = static_cast<double>(target) * lengths.source / lengths.target;
  return {.source_tokens = std::llround(std::ceil(source)),
          .target_tokens = target,
          .source_length = lengths.source,
          .target_length = lengths.target};
}

BertBatch MicroBatchOf(const proto::BertTrainerConfig& config, int ranks,
                       const TextLengths& lengths) {
  constexpr double kDeviations = 4.0;
  const BatchOptions batch = BertBatchOf(config);
  const int64_t parts =
      int64_t{ranks} * MicroBatchesOf(batch, config.micro_batch_tokens(), lengths.longest, ranks);
  if (batch.samples_per_batch == 0) {
    const int64_t tokens = (batch.tokens_per_batch + parts - 1) / parts;
    const auto texts = std::llround(static_cast<double>(tokens) / std::max(lengths.mean, 1.0));
    return {.tokens = tokens, .texts = std::max<int64_t>(texts, 1)};
  }
  const int64_t texts = (batch.samples_per_batch + parts - 1) / parts;
  const auto count = static_cast<double>(texts);
  const double tokens = count * lengths.mean + kDeviations * lengths.deviation * std::sqrt(count);
  const double most = count * static_cast<double>(lengths.longest);
  return {.tokens = std::llround(std::min(tokens, most)), .texts = texts};
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

std::string TokensText(const Seq2SeqBatch& batch) {
  return absl::StrFormat("%d + %d tokens", batch.source_tokens, batch.target_tokens);
}

std::string TokensText(const BertBatch& batch) {
  return absl::StrFormat("%d tokens", batch.tokens);
}

std::string DescribePlan(const RecomputePlan& recompute, int64_t budget_bytes,
                         const std::string& tokens) {
  std::string text =
      absl::StrFormat("recompute %s%s: %s of activations planned for a micro-batch of %s",
                      DescribeRecompute(recompute), budget_bytes > 0 ? " (auto)" : "",
                      FormatMebibytes(recompute.peak_bytes), tokens);
  if (budget_bytes > 0) text += ", budget " + FormatMebibytes(budget_bytes);
  return text;
}

MemoryPlan PlanMemory(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                      const Seq2SeqBatch& batch, DeviceType device, int64_t budget_bytes) {
  const ContextOptions context = ContextOptionsOf(config.trainer(), /*rank=*/0);
  return PlanFor(config.trainer(), context, CostsOf(model, batch), batch, device, budget_bytes);
}

BertMemoryPlan PlanMemory(const BertWorkload& work, const BertBatch& batch, DeviceType device,
                          int64_t budget_bytes) {
  const ContextOptions context = BertContextOf(work.trainer, /*seed=*/1, /*rank=*/0);
  return PlanFor(work.trainer, context, work.costs(batch), batch, device, budget_bytes);
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

std::string MemoryRemedies(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                           const MemoryPlan& plan, DeviceType device) {
  const ContextOptions context = ContextOptionsOf(config.trainer(), /*rank=*/0, plan.recompute);
  // A micro-batch holds at least one sentence.
  const int64_t longest = int64_t{config.data().max_length()} + 1;
  Seq2SeqBatch half = plan.batch;
  half.target_tokens = std::max(half.target_tokens / 2, std::min(half.target_tokens, longest));
  half.source_tokens = half.source_tokens * half.target_tokens / plan.batch.target_tokens;
  return RemediesText(CostsOf(model, plan.batch), CostsOf(model, half), half.target_tokens,
                      ActivationsOf(context, device), plan.recompute);
}

std::string MemoryRemedies(const BertWorkload& work, const BertMemoryPlan& plan,
                           DeviceType device) {
  const ContextOptions context =
      BertContextOf(work.trainer, /*seed=*/1, /*rank=*/0, plan.recompute);
  // A micro-batch holds at least one text.
  BertBatch half = plan.batch;
  half.texts = std::max<int64_t>(half.texts / 2, 1);
  half.tokens = half.tokens * half.texts / plan.batch.texts;
  const bool by_tokens = work.trainer.tokens_per_batch() > 0;
  const int64_t micro = by_tokens ? half.tokens : half.texts * work.max_length;
  return RemediesText(work.costs(plan.batch), work.costs(half), micro,
                      ActivationsOf(context, device), plan.recompute);
}

MemoryPlan PlanRun(const proto::NmtConfig& config, const Seq2SeqOptions& model,
                   const TokenShard& train, Runtime& runtime) {
  const Seq2SeqBatch batch =
      MicroBatchOf(config.trainer(), runtime.comm.size(), MeanLengthsOf(train));
  const auto plan_with = [&](int64_t budget) {
    return PlanMemory(config, model, batch, runtime.device.type, budget);
  };
  return PlanFor(config.trainer(), config.optimizer(), CountParameters(model).total(), plan_with,
                 runtime);
}

BertMemoryPlan PlanRun(const BertWorkload& work, const proto::OptimizerConfig& optimizer,
                       const TextLengths& lengths, Runtime& runtime) {
  const BertBatch batch = MicroBatchOf(work.trainer, runtime.comm.size(), lengths);
  const auto plan_with = [&](int64_t budget) {
    return PlanMemory(work, batch, runtime.device.type, budget);
  };
  return PlanFor(work.trainer, optimizer, work.costs(batch).parameters, plan_with, runtime);
}

}  // namespace dtrain
