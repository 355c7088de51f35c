// workload_checks.cc - devices, lengths and sizes that a plan refuses.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/workload_checks.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/run.pb.h"

namespace dtrain::internal {
namespace {

// In texts or tokens.
constexpr int64_t kLargestBatch = int64_t{1} << 32;

bool HasGpu() {
  if constexpr (kWithCuda) return cuda::DeviceCount() > 0;
  return false;
}

}  // namespace

StatusOr<Device> PlannedDevice(const proto::RunConfig& run, const MemoryOptions& memory) {
  const bool asks_device = memory.plans_recompute && memory.activation_mib == 0;
  if (run.device() == proto::cuda && asks_device && !HasGpu()) {
    return UsageError(
        "trainer.recompute=auto asks how much memory the GPU has, and there is none here: set "
        "trainer.activation_mib");
  }
  const bool cuda = run.device() == proto::cuda || (run.device() == proto::auto_ && HasGpu());
  return Device{cuda ? DeviceType::kCuda : DeviceType::kCpu};
}

Status CheckLengths(const WorkloadOptions& options, int64_t longest, const char* field) {
  const auto refusal = [&](const char* flag, double tokens, int least) {
    return UsageError(absl::StrFormat("--%s is %g tokens, must be %d to %d (%s)", flag, tokens,
                                      least, longest, field));
  };
  const auto most = static_cast<double>(longest);
  for (const auto& [flag, tokens] : {std::pair{"source_length", options.source_length},
                                     {"target_length", options.target_length}}) {
    if (tokens != 0.0 && !(tokens >= 1.0 && tokens <= most)) return refusal(flag, tokens, 1);
  }
  const double deviation = options.length_deviation;
  if (deviation >= 0.0 && deviation <= most) return OkStatus();
  return refusal("length_deviation", deviation, 0);
}

Status CheckBatchSize(const char* field, int64_t size) {
  if (size <= kLargestBatch) return OkStatus();
  return UsageError(
      absl::StrFormat("%s is %d; an estimate takes at most %d", field, size, kLargestBatch));
}

double FlopsPerToken(const ModelCosts& costs, int64_t tokens) {
  return costs.flops(Recompute::kNone, /*recompute_every=*/1).model() / static_cast<double>(tokens);
}

}  // namespace dtrain::internal
