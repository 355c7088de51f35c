// attention_engine.h - whose kernels compute attention on a GPU: ours, cuDNN's, or the faster.
// SPDX-License-Identifier: Apache-2.0
//
//   SetAttentionEngine(AttentionEngine::kAuto);
//   { const MeasureAttention measure;  model.Forward(batch, ctx);  model.Backward(ctx); }
//   WriteFileAtomically(path, PrintAttentionPlans(device));
//
// cuDNN computes float16 and bfloat16 without dropout, heads of a multiple of 8 up to 128, and
// backward where it is deterministic; all else stays with our kernels. Both leave the same
// statistics, so forward and backward are chosen apart.
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
  kNative,  // our kernels
  kAuto,    // cuDNN where it was measured to be faster
  kCudnn    // cuDNN wherever it has a kernel
};

// Of this thread.
AttentionEngine CurrentAttentionEngine();
void SetAttentionEngine(AttentionEngine engine);

// Empty where this program can use cuDNN; else what is missing and what to install.
std::string WhyNoCudnn();

// While one lives, attention of this thread that has no plan is measured, with
// AttentionEngine::kAuto: it runs many times. CudaError where cuDNN cannot be used.
class MeasureAttention {
 public:
  MeasureAttention();
  MeasureAttention(const MeasureAttention&) = delete;
  MeasureAttention& operator=(const MeasureAttention&) = delete;
  ~MeasureAttention();
};

// Plans hold for sequences whose longest rounds to the same length: a power of two, at least 64.
int64_t RoundAttentionLength(int64_t length);

// Measured plans of this thread, as in ops/gemm_tuning.h.
size_t CountAttentionPlans();
std::string PrintAttentionPlans(const Device& device);
StatusOr<bool> UseAttentionPlans(std::string_view text, std::string_view path,
                                 const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_OPS_ATTENTION_ENGINE_H_
