// gemm_kernel.h - a matrix product as raw pointers, between gemm.cc and the devices' halves.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_GEMM_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_GEMM_KERNEL_H_

#include <cstdint>
#include <functional>

#include "dtrain/base/dtype.h"
#include "dtrain/device/cuda/product.h"
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
  // Of FusedGemmCuda() alone, as in device/cuda/product.h; the sums are added to bias_gradient.
  cuda::Epilogue epilogue = cuda::Epilogue::kNone;
  void* aux = nullptr;
  int64_t aux_stride = 0;
  float* bias_gradient = nullptr;
};

template <typename T>
void GemmCpu(const GemmArgs& args);
template <typename T>
void GemmCuda(const GemmArgs& args, Stream& stream);

// The product and its epilogue as one kernel, where that is the plan (ops/gemm_tuning.h). Otherwise
// false, and the caller runs the parts; `parts` does that while both are measured, many times.
template <typename T>
bool FusedGemmCuda(const GemmArgs& args, const std::function<void()>& parts, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_GEMM_KERNEL_H_
