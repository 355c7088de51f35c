// embedding_kernel.h - arguments of the kernels that implement ops/embedding.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_EMBEDDING_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_EMBEDDING_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// Processes tokens [token_begin, token_end); on CUDA all tokens.
struct EmbeddingForwardArgs {
  const int32_t* ids = nullptr;
  const int32_t* position_ids = nullptr;
  Rows table{}, positions{}, out{};  // positions may be absent
  float scale = 1.0f;
  int32_t zero_id = -1;
  DropoutDraw dropout{};
  int64_t token_begin = 0, token_end = 0, columns = 0;
};
DT_DECLARE_CPU_KERNEL(EmbeddingForwardKernel, EmbeddingForwardArgs);
template <typename T>
void EmbeddingForwardKernelCuda(const EmbeddingForwardArgs& args, Stream& stream);

// Processes all tokens in order, and columns [column_begin, column_end); on CUDA all columns.
struct EmbeddingBackwardArgs {
  Rows d_out{};
  const int32_t* ids = nullptr;
  const int32_t* position_ids = nullptr;
  Rows d_table{}, d_positions{};  // float; d_positions may be absent
  float scale = 1.0f;
  int32_t zero_id = -1;
  DropoutDraw dropout{};
  int64_t tokens = 0, columns = 0;
  int64_t column_begin = 0, column_end = 0;
};
DT_DECLARE_CPU_KERNEL(EmbeddingBackwardKernel, EmbeddingBackwardArgs);
template <typename T>
void EmbeddingBackwardKernelCuda(const EmbeddingBackwardArgs& args, Stream& stream);

// FillSinusoids() for table: [rows, hidden].
template <typename T>
void FillSinusoidsKernelCuda(const Rows& table, int64_t rows, int64_t hidden, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_EMBEDDING_KERNEL_H_
