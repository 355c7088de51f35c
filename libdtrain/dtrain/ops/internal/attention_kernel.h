// attention_kernel.h - attention as raw pointers, between attention.cc and the devices' kernels.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_ATTENTION_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/base/random.h"
#include "dtrain/device/stream.h"

namespace dtrain {

// Queries and keys are processed in tiles of these sizes, which are multiples of every vector size
// and of kDropoutBlock.
inline constexpr int kQueryTile = 32;
inline constexpr int kKeyTile = 128;
// The same where CPUs multiply floats; also multiples of every kBlockRows (small_matrix.h).
inline constexpr int kFloatQueryTile = 96;
inline constexpr int kFloatKeyTile = 192;
// How many draws the numbers of a row have room for (ops/dropout.h), and of how many keys.
inline constexpr uint32_t kDropoutDraws = uint32_t{1} << 18;
inline constexpr int64_t kDropoutKeys = int64_t{kDropoutDraws} * 4;
// Queries and keys of a block within which draws are numbered.
inline constexpr int kDropoutBlock = 16;

// Strides are elements between rows. A unit is (sequence, head): sequence * num_heads + head.
struct AttentionArgs {
  const void *q, *k, *v;
  void* out;           // written by forward, read by backward
  float* log_sum_exp;  // written by forward, read by backward; [query tokens, num_heads]
  const void* d_out;   // d_out, dq, dk and dv are for backward only
  void *dq, *dk, *dv;
  int64_t q_stride, k_stride, v_stride, out_stride;
  int64_t d_out_stride, dq_stride, dk_stride, dv_stride;
  const int32_t* query_offsets;  // [sequences + 1], in host memory
  const int32_t* key_offsets;
  const int32_t* device_query_offsets;  // the same offsets in GPU memory, or null
  const int32_t* device_key_offsets;
  int num_heads, head_dim;
  bool causal;
  float scale;
  RandomKey dropout_key;
  const uint32_t* dropout_step;  // see DropoutDraw::device_step
  const int32_t* row_numbers;    // numbers of the queries; see DropoutDraw::row_numbers
  uint32_t dropout_threshold;    // 0 means no dropout
  float dropout_scale;
  int64_t sequences, max_queries, max_keys;  // number of sequences, and lengths of the longest
  int window;    // keys that a query sees on either side; 0 means all, and never with causal
  float* delta;  // CUDA backward only: memory for delta, see attention_kernel.cuh
  // CPU only: the units of this thread, and its scratch memory, which attention_unit.h divides up.
  int64_t first_unit, last_unit;
  float* scratch;
};

struct CachedAttentionArgs {
  const void *q, *keys, *values;
  const int32_t* slots;
  void* out;
  int64_t q_stride, keys_stride, values_stride, slots_stride, out_stride;
  int64_t length;
  int num_heads, head_dim;
  float scale;
  int64_t first_row, last_row;
  float* scratch;  // [length + 16]
};

DT_DECLARE_CPU_KERNEL(AttentionForwardKernel, AttentionArgs);
DT_DECLARE_CPU_KERNEL(AttentionBackwardKernel, AttentionArgs);
DT_DECLARE_CPU_KERNEL(CachedAttentionKernel, CachedAttentionArgs);
// Processes all rows.
template <typename T>
void CachedAttentionKernelCuda(const CachedAttentionArgs& args, Stream& stream);

// Processes the whole batch. `query_offsets` and `key_offsets` are in host memory.
template <typename T>
void AttentionForwardKernelCuda(const AttentionArgs& args, Stream& stream);
template <typename T>
void AttentionBackwardKernelCuda(const AttentionArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_KERNEL_H_
