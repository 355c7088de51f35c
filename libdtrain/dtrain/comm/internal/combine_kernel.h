// combine_kernel.h - the reduction of Combine(), compiled once per instruction set.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COMBINE_KERNEL_H_
#define DTRAIN_COMM_INTERNAL_COMBINE_KERNEL_H_

#include <cstddef>
#include <cstdint>

#include "dtrain/base/internal/cpu_kernel.h"

namespace dtrain {

enum class CombineOp { kSum, kMin, kMax, kProduct, kBitAnd };

struct CombineArgs {
  CombineOp op = CombineOp::kSum;
  const std::byte* const* sources = nullptr;
  size_t num_sources = 0;
  int64_t count = 0;
  int divisor = 1;
  std::byte* out = nullptr;
  std::byte* copy = nullptr;  // may be null
  bool copy_past_caches = false;
};

DT_DECLARE_CPU_KERNEL(CombineKernel, CombineArgs);  // for every DType

}  // namespace dtrain

#endif  // DTRAIN_COMM_INTERNAL_COMBINE_KERNEL_H_
