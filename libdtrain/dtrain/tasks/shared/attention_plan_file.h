// attention_plan_file.h - which engine computes attention: asked for, or measured, on all ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_ATTENTION_PLAN_FILE_H_
#define DTRAIN_TASKS_SHARED_ATTENTION_PLAN_FILE_H_

#include <cstdint>
#include <string>

#include "dtrain/base/dtype.h"
#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"
#include "dtrain/launch/kernel_plan_report.h"
#include "dtrain/ops/attention_engine.h"

namespace dtrain::proto {
class KernelConfig;
}  // namespace dtrain::proto

namespace dtrain {

struct AttentionPlanOptions {
  AttentionEngine engine = AttentionEngine::kNative;
  std::string path = {};  // of the plan file of kAuto, read and written on the root rank
};
// Plans in the run's directory unless the section names another.
AttentionPlanOptions AttentionPlanOptionsOf(const proto::KernelConfig& config,
                                            const std::string& run_dir);

// The sizes of a model's attention, for measuring its speed.
struct AttentionWorkload {
  int64_t hidden_size = 512;
  int num_heads = 8;
  DType type = DType::kBFloat16;
  float dropout = 0.0F;      // on the probabilities
  int64_t max_length = 128;  // of a sequence
  int64_t tokens = 4096;     // of a micro-batch
  bool self = true, causal = false, cross = false;
};

// Sets who computes this rank's attention on a GPU. With kAuto all ranks take the root rank's
// plans: those of the file, and for lengths of `workload` beyond them new ones, which go into the
// file, as with PrepareGemmPlans(); where a rank cannot use cuDNN, all stay native and say why.
// With kCudnn that is a UsageError on all ranks. Collective.
StatusOr<PlanReport> PrepareAttentionPlans(const AttentionPlanOptions& options,
                                           const AttentionWorkload& workload, const Device& device,
                                           Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_SHARED_ATTENTION_PLAN_FILE_H_
