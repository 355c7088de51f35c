// gemm_kernel.h - a matrix product as raw pointers, between gemm.cc and the devices' halves.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_GEMM_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_GEMM_KERNEL_H_

#include <cstdint>

#include "dtrain/base/dtype.h"
#include "dtrain/device/stream.h"

namespace dtrain {

// c = op(a) op(b) + bias, or += where `accumulate`; m, n, k > 0. Strides are elements between rows
// as stored. a and b have the type T the kernel is called for; c and bias have T or float32.
struct GemmArgs {
  int64_t m, n, k;
  const void* a;
  const void* b;
  void* c;
  const void* bias;  // [n] in c's type, or null
  int64_t a_stride, b_stride, c_stride;
  bool transpose_a, transpose_b, accumulate;
  DType c_type;
};

template <typename T>
void GemmCpu(const GemmArgs& args);
template <typename T>
void GemmCuda(const GemmArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_GEMM_KERNEL_H_
