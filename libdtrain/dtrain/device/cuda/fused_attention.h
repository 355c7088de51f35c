// fused_attention.h - attention over packed sequences by cuDNN: one graph per shape.
// SPDX-License-Identifier: Apache-2.0
//
// Free of cuDNN's headers, which a build need not have, so that what chooses and describes builds
// and is tested everywhere.
#ifndef DTRAIN_DEVICE_CUDA_FUSED_ATTENTION_H_
#define DTRAIN_DEVICE_CUDA_FUSED_ATTENTION_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dtrain/base/dtype.h"
#include "dtrain/device/stream.h"

namespace dtrain::cuda {

// Its tensors, forward the first five. Rows are tokens: [tokens, num_heads * head_dim], but
// log_sum_exp: [query tokens, num_heads], float32, the natural logarithm of the denominators.
enum class AttentionTensor { kQ, kK, kV, kOut, kLogSumExp, kDOut, kDQ, kDK, kDV };
inline constexpr size_t kAttentionTensors = 9;
inline constexpr size_t kForwardTensors = 5;

constexpr bool IsOfKeys(AttentionTensor tensor) {
  return tensor == AttentionTensor::kK || tensor == AttentionTensor::kV ||
         tensor == AttentionTensor::kDK || tensor == AttentionTensor::kDV;
}

// All a graph depends on. A batch may have less of what is "at most".
struct FusedAttentionShape {
  int64_t sequences = 0;                     // exactly; some may be empty
  int64_t max_queries = 0, max_keys = 0;     // of a sequence, at most
  int64_t query_tokens = 0, key_tokens = 0;  // of the batch, at most
  int64_t num_heads = 0, head_dim = 0;
  bool causal = false;    // query i of a sequence sees keys 0..i
  bool backward = false;  // deterministic
  DType type = DType::kBFloat16;
  std::array<int64_t, kAttentionTensors> strides{};  // elements between rows

  size_t tensors() const { return backward ? kAttentionTensors : kForwardTensors; }
  friend auto operator<=>(const FusedAttentionShape&, const FusedAttentionShape&) = default;
};

// In the device's memory, but `scale`.
struct FusedAttentionOperands {
  std::array<void*, kAttentionTensors> tensors{};
  // Elements from a tensor's begin to each sequence's first row, [sequences + 1].
  std::array<const int64_t*, kAttentionTensors> offsets{};
  const int32_t* query_lengths = nullptr;  // [sequences]
  const int32_t* key_lengths = nullptr;
  void* workspace = nullptr;  // workspace_bytes()
  float scale = 1.0F;
};

// A graph belongs to one thread.
class FusedAttention {
 public:
  // None where cuDNN has no kernel for the shape on this GPU, and then `why` is what it says.
  // CudaError where it cannot be used at all.
  static std::unique_ptr<FusedAttention> Make(const FusedAttentionShape& shape,
                                              const Device& device, std::string& why);
  FusedAttention() = default;
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;
  virtual ~FusedAttention() = default;

  virtual size_t workspace_bytes() const = 0;
  virtual void Run(const FusedAttentionOperands& operands, Stream& stream) = 0;
};

// Empty where cuDNN can be used; else what is missing and what to do about it.
std::string WhyNoFusedAttention();
// cuDNN's version number, 91900 for 9.19.0; 0 where it cannot be used.
size_t FusedAttentionVersion();

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_FUSED_ATTENTION_H_
