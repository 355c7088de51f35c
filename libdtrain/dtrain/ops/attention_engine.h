// attention_engine.h - chooses whose kernels compute attention on a GPU: ours or cuDNN's.
// SPDX-License-Identifier: Apache-2.0
//
//   SetAttentionEngine(AttentionEngine::kAuto);
//   { const MeasureAttention measure;  model.Forward(batch, ctx);  model.Backward(ctx); }
//   WriteFileAtomically(path, PrintAttentionPlans(device));
//
// cuDNN is used for float16 and bfloat16 without dropout or window, and head sizes that are
// multiples of 8 up to 128. Backward is used only where cuDNN's is deterministic. Everything else
// uses our kernels. Both engines save the same statistics, so forward and backward are chosen
// independently.
#ifndef DTRAIN_OPS_ATTENTION_ENGINE_H_
#define DTRAIN_OPS_ATTENTION_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/device/device.h"

namespace dtrain {

enum class AttentionEngine {
  kNative,     // our kernels
  kAuto,       // cuDNN where a measurement showed that it is faster
  kCudnn,      // cuDNN wherever it has a kernel
  kWarpgroups  // our kernels, on an H100 or H200 those of attention_warpgroup.cuh for heads of 64.
               // For benchmarks and tests, until a GPU has shown that they are right and faster
};

// The engine of the calling thread.
AttentionEngine CurrentAttentionEngine();
void SetAttentionEngine(AttentionEngine engine);

// True if kWarpgroups has kernels for this GPU in this program.
bool HasWarpgroupAttention(const Device& device);

// Empty if this program can use cuDNN; otherwise the reason and what to install.
std::string WhyNoCudnn();

// While such an object exists and the engine is kAuto, this thread measures every attention that
// has no plan yet, by running it many times. Throws CudaError if cuDNN cannot be used.
class MeasureAttention {
 public:
  MeasureAttention();
  MeasureAttention(const MeasureAttention&) = delete;
  MeasureAttention& operator=(const MeasureAttention&) = delete;
  ~MeasureAttention();
};

// Rounds a length up to a power of two, at least 64. A plan holds for all batches whose longest
// sequences round to the same lengths.
int64_t RoundAttentionLength(int64_t length);

// Counts, prints and loads this thread's measured plans, as in ops/gemm_tuning.h.
size_t CountAttentionPlans();
std::string PrintAttentionPlans(const Device& device);
StatusOr<bool> UseAttentionPlans(std::string_view text, std::string_view path,
                                 const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_OPS_ATTENTION_ENGINE_H_
