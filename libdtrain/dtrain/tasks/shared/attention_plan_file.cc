// attention_plan_file.cc - whether cuDNN is there, and what is measured of both engines.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/attention_plan_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/log.h"
#include "dtrain/kernels.pb.h"
#include "dtrain/launch/internal/kernel_plan_file.h"
#include "dtrain/nn/context.h"
#include "dtrain/ops/attention.h"
#include "dtrain/ops/cast.h"

namespace dtrain {
namespace {

// Sequences of one length, their offsets on the device as a training batch's are.
Sequences EvenSequences(int64_t count, int64_t length, Context& context) {
  std::vector<int32_t> offsets;
  for (int64_t i = 0; i <= count; ++i) offsets.push_back(static_cast<int32_t>(i * length));
  Sequences sequences(offsets);
  sequences.set_device_offsets(context.Upload(offsets));
  return sequences;
}

struct Kind {
  int64_t queries = 0, keys = 0;  // of each sequence
  bool causal = false, cross = false;
};

// Forward and backward once, laid out as the attention layer does. Values do not matter: zeros.
void Attend(const AttentionWorkload& workload, const Kind& kind, Context& context) {
  const int64_t count = std::max<int64_t>(1, workload.tokens / std::max(kind.queries, kind.keys));
  const Sequences queries = EvenSequences(count, kind.queries, context);
  const Sequences keys = EvenSequences(count, kind.keys, context);
  const int64_t hidden = workload.hidden_size;
  Stream& stream = context.stream();
  const auto zeros = [&](int64_t tokens, int64_t parts) {
    Tensor x = context.Empty({tokens, parts * hidden});
    Zero(x, stream);
    return x;
  };
  // q, k and v, or their gradients: of one projection, or of the queries' and the memory's.
  const auto projections = [&] {
    Tensor first = zeros(queries.tokens(), kind.cross ? 1 : 3);
    const Tensor second = kind.cross ? zeros(keys.tokens(), 2) : first.Columns(hidden, 3 * hidden);
    return std::vector<Tensor>{first.Columns(0, hidden), second.Columns(0, hidden),
                               second.Columns(hidden, 2 * hidden)};
  };
  const AttentionOptions options = {.num_heads = workload.num_heads, .causal = kind.causal};
  const std::vector<Tensor> x = projections();
  AttentionSaved saved{
      .q = x[0],
      .k = x[1],
      .v = x[2],
      .out = zeros(queries.tokens(), 1),
      .log_sum_exp = context.Empty({queries.tokens(), workload.num_heads}, DType::kFloat32)};
  AttentionForward(saved.q, saved.k, saved.v, queries, keys, options, saved.out, saved.log_sum_exp,
                   stream);
  std::vector<Tensor> gradients = projections();
  AttentionBackward(zeros(queries.tokens(), 1), saved, queries, keys, options, gradients[0],
                    gradients[1], gradients[2], stream);
}

// One sequence length for each that plans tell apart: three quarters of it.
std::vector<int64_t> LengthsUpTo(int64_t max_length) {
  std::vector<int64_t> lengths;
  for (int64_t length = RoundAttentionLength(1); lengths.empty() || length / 2 < max_length;
       length *= 2) {
    lengths.push_back(std::min(3 * length / 4, max_length));
  }
  return lengths;
}

void MeasureAll(const AttentionWorkload& workload, const Device& device) {
  Context context(device, {.compute_type = workload.type});
  const MeasureAttention measure;
  for (const int64_t queries : LengthsUpTo(workload.max_length)) {
    const Kind self{.queries = queries, .keys = queries};
    if (workload.self) Attend(workload, self, context);
    if (workload.causal)
      Attend(workload, {.queries = queries, .keys = queries, .causal = true}, context);
    if (!workload.cross) continue;
    for (const int64_t keys : LengthsUpTo(workload.max_length)) {
      Attend(workload, {.queries = queries, .keys = keys, .cross = true}, context);
    }
  }
  context.stream().Synchronize();
}

// cuDNN on every rank, or the reason why not.
Status CheckCudnn(Communicator& comm) {
  const std::string why = WhyNoCudnn();
  if (comm.AllReduceValue(static_cast<int32_t>(why.empty()), ReduceOp::kMin) == 1) {
    return OkStatus();
  }
  return UsageError(why.empty() ? "another rank cannot use cuDNN; its message says why" : why);
}

// What keeps all of training native; empty for nothing.
std::string WhyAlwaysNative(const AttentionWorkload& workload) {
  if (workload.type == DType::kFloat32) return "cuDNN's attention takes bf16 and fp16, not fp32";
  if (workload.dropout > 0.0F) return "cuDNN's attention is used without attention dropout only";
  return "";
}

}  // namespace

AttentionPlanOptions AttentionPlanOptionsOf(const proto::KernelConfig& config,
                                            const std::string& run_dir) {
  AttentionPlanOptions options{.path = (config.plan_dir().empty() ? run_dir : config.plan_dir()) +
                                       "/attention_plans.txt"};
  switch (config.attention()) {
    case proto::KernelConfig::native:
      options.engine = AttentionEngine::kNative;
      break;
    case proto::KernelConfig::auto_:
      options.engine = AttentionEngine::kAuto;
      break;
    case proto::KernelConfig::cudnn:
      options.engine = AttentionEngine::kCudnn;
      break;
  }
  return options;
}

StatusOr<PlanReport> PrepareAttentionPlans(const AttentionPlanOptions& options,
                                           const AttentionWorkload& workload, const Device& device,
                                           Communicator& comm) {
  SetAttentionEngine(AttentionEngine::kNative);
  if (options.engine == AttentionEngine::kNative || device.type == DeviceType::kCpu) {
    return PlanReport();
  }
  const bool is_auto = options.engine == AttentionEngine::kAuto;
  if (const Status status = CheckCudnn(comm); !status.ok()) {
    if (!is_auto) {
      return Annotate(status, "kernels.attention=cudnn (or set kernels.attention=native)");
    }
    LogInfo(absl::StrCat("kernels.attention=auto: native; ", status.message()));
    return PlanReport();
  }
  SetAttentionEngine(options.engine);
  const std::string why = WhyAlwaysNative(workload);
  if (!why.empty() && comm.is_root()) {
    LogWarning(absl::StrCat("kernels.attention: training stays native; ", why));
  }
  if (!is_auto || !why.empty()) return PlanReport();
  DT_ASSIGN_OR_RETURN(
      const PlanReport report,
      internal::PreparePlans({.what = "attention",
                              .library = "cuDNN",
                              .count = CountAttentionPlans,
                              .print = PrintAttentionPlans,
                              .use = UseAttentionPlans},
                             options.path, device, comm, [&] { MeasureAll(workload, device); }));
  if (comm.is_root()) {
    LogInfo(absl::StrFormat("plans of attention: %d measured before, %d now", report.read,
                            report.measured));
  }
  return report;
}

}  // namespace dtrain
