// combine_kernel.h - the reduction of Combine(), compiled once per instruction set.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COMBINE_KERNEL_H_
#define DTRAIN_COMM_INTERNAL_COMBINE_KERNEL_H_

#include <cstddef>
#include <cstdint>

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
};

// The file that dtrain_cpu_kernels() compiles defines one per namespace, for every DType.
#define DT_DECLARE_COMBINE_(isa)               \
  namespace isa {                              \
  template <typename T>                        \
  void CombineKernel(const CombineArgs& args); \
  }
DT_DECLARE_COMBINE_(cpu_generic)
#if defined(__x86_64__)
DT_DECLARE_COMBINE_(cpu_avx2)
DT_DECLARE_COMBINE_(cpu_avx512)
#endif
#undef DT_DECLARE_COMBINE_

}  // namespace dtrain

#endif  // DTRAIN_COMM_INTERNAL_COMBINE_KERNEL_H_
