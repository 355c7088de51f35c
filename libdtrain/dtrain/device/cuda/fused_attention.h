// fused_attention.h - attention over packed sequences by cuDNN, with one graph per shape.
// SPDX-License-Identifier: Apache-2.0
//
// Includes no cuDNN header, so that the code which chooses and describes graphs builds and is
// tested without cuDNN.
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

// The tensors of attention; the forward pass uses the first five. Shapes: [tokens, num_heads *
// head_dim], except log_sum_exp: [query tokens, num_heads], float32, the natural logarithm of the
// softmax denominators.
enum class AttentionTensor { kQ, kK, kV, kOut, kLogSumExp, kDOut, kDQ, kDK, kDV };
inline constexpr size_t kAttentionTensors = 9;
inline constexpr size_t kForwardTensors = 5;

constexpr bool IsOfKeys(AttentionTensor tensor) {
  return tensor == AttentionTensor::kK || tensor == AttentionTensor::kV ||
         tensor == AttentionTensor::kDK || tensor == AttentionTensor::kDV;
}

// Everything a graph depends on. Values marked "at most" are upper bounds; a batch may have less.
struct FusedAttentionShape {
  int64_t sequences = 0;                     // exact number; sequences may be empty
  int64_t max_queries = 0, max_keys = 0;     // in one sequence, at most
  int64_t query_tokens = 0, key_tokens = 0;  // in the whole batch, at most
  int64_t num_heads = 0, head_dim = 0;
  bool causal = false;    // query i of a sequence sees keys 0..i
  bool backward = false;  // the backward pass, which is deterministic
  DType type = DType::kBFloat16;
  std::array<int64_t, kAttentionTensors> strides{};  // elements between rows

  size_t tensors() const { return backward ? kAttentionTensors : kForwardTensors; }
  friend auto operator<=>(const FusedAttentionShape&, const FusedAttentionShape&) = default;
};

// Addresses of one run. All pointers are device memory.
struct FusedAttentionOperands {
  std::array<void*, kAttentionTensors> tensors{};
  // Elements from the start of a tensor to each sequence's first row, [sequences + 1].
  std::array<const int64_t*, kAttentionTensors> offsets{};
  const int32_t* query_lengths = nullptr;  // [sequences]
  const int32_t* key_lengths = nullptr;
  void* workspace = nullptr;  // memory of workspace_bytes()
  float scale = 1.0F;
};

// One graph. It may be used by one thread only.
class FusedAttention {
 public:
  // Returns nullptr if cuDNN has no kernel for this shape on this GPU; `why` is then cuDNN's
  // reason. Throws CudaError if cuDNN cannot be used at all.
  static std::unique_ptr<FusedAttention> Make(const FusedAttentionShape& shape,
                                              const Device& device, std::string& why);
  FusedAttention() = default;
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;
  virtual ~FusedAttention() = default;

  virtual size_t workspace_bytes() const = 0;
  virtual void Run(const FusedAttentionOperands& operands, Stream& stream) = 0;
};

// Empty if cuDNN can be used; otherwise what is missing and what to do about it.
std::string WhyNoFusedAttention();
// cuDNN's version number (91900 for 9.19.0), or 0 if cuDNN cannot be used.
size_t FusedAttentionVersion();

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_FUSED_ATTENTION_H_
