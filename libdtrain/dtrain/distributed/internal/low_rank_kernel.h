// low_rank_kernel.h - the loops of low_rank.h that must give the same bits on all ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_LOW_RANK_KERNEL_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_LOW_RANK_KERNEL_H_

#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"

namespace dtrain {

// Rows [begin, end) of P Q^T.
struct FactorProductArgs {
  const float* left = nullptr;   // P^T [rank, rows]
  const float* right = nullptr;  // Q^T [rank, columns]
  float* product = nullptr;      // [rows, columns]
  int rank = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// row -= (row . direction) direction. Both are of length 1 or less.
struct SubtractProjectionArgs {
  float* row = nullptr;
  const float* direction = nullptr;
  int64_t length = 0;
};

DT_DECLARE_CPU_KERNEL(FactorProductKernel, FactorProductArgs);
DT_DECLARE_CPU_KERNEL(SubtractProjectionKernel, SubtractProjectionArgs);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_LOW_RANK_KERNEL_H_
