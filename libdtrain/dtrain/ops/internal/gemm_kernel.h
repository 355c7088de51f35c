// gemm_kernel.h - a matrix product as raw pointers, between gemm.cc and the devices' code.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_GEMM_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_GEMM_KERNEL_H_

#include <cstdint>
#include <functional>

#include "dtrain/base/dtype.h"
#include "dtrain/device/cuda/product.h"
#include "dtrain/device/stream.h"

namespace dtrain {

// c = op(a) op(b) + bias, or c += if `accumulate`; m, n, k > 0. Strides are elements between stored
// rows. a and b have the kernel's type T; c and bias have type T or float32.
struct GemmArgs {
  int64_t m, n, k;
  const void* a;
  const void* b;
  void* c;
  const void* bias;  // [n] in c's type, or null
  int64_t a_stride, b_stride, c_stride;
  bool transpose_a, transpose_b, accumulate;
  DType c_type;
  // Used by FusedGemmCuda() only, as in device/cuda/product.h. The sums are added to bias_gradient.
  cuda::Epilogue epilogue = cuda::Epilogue::kNone;
  void* aux = nullptr;
  int64_t aux_stride = 0;
  float* bias_gradient = nullptr;
};

template <typename T>
void GemmCpu(const GemmArgs& args);
template <typename T>
void GemmCuda(const GemmArgs& args, Stream& stream);

// Runs the product and its epilogue as one kernel, if that is the plan (ops/gemm_tuning.h).
// Otherwise returns false, and the caller must run the parts. While both are measured, `parts` is
// called many times.
template <typename T>
bool FusedGemmCuda(const GemmArgs& args, const std::function<void()>& parts, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_GEMM_KERNEL_H_
