// gemm.cc - the products of the emulated GPU: plain loops with float sums.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "dtrain/ops/internal/gemm_kernel.h"
#include "testing/host_executor/streams.h"

namespace dtrain {
namespace {

template <typename T>
float At(const void* matrix, int64_t stride, int64_t row, int64_t column, bool transpose) {
  const int64_t at = transpose ? column * stride + row : row * stride + column;
  return static_cast<float>(static_cast<const T*>(matrix)[at]);
}

// A row of c at a time, b's rows in the inner loop: fast enough for a small model's tests.
template <typename T, typename C>
void Multiply(const GemmArgs& args) {
  std::vector<float> b(static_cast<size_t>(args.k * args.n));
  for (int64_t p = 0; p < args.k; ++p) {
    for (int64_t j = 0; j < args.n; ++j) {
      b[static_cast<size_t>(p * args.n + j)] = At<T>(args.b, args.b_stride, p, j, args.transpose_b);
    }
  }
  std::vector<float> sums(static_cast<size_t>(args.n));
  for (int64_t i = 0; i < args.m; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (int64_t p = 0; p < args.k; ++p) {
      const float a = At<T>(args.a, args.a_stride, i, p, args.transpose_a);
      const float* const row = b.data() + p * args.n;
      for (int64_t j = 0; j < args.n; ++j) sums[static_cast<size_t>(j)] += a * row[j];
    }
    C* const out = static_cast<C*>(args.c) + i * args.c_stride;
    for (int64_t j = 0; j < args.n; ++j) {
      float value = sums[static_cast<size_t>(j)];
      if (args.bias != nullptr) value += static_cast<float>(static_cast<const C*>(args.bias)[j]);
      if (args.accumulate) value += static_cast<float>(out[j]);
      out[j] = static_cast<C>(value);
    }
  }
}

}  // namespace

template <typename T>
void GemmCuda(const GemmArgs& args, Stream& stream) {
  host_executor::Submit(stream.handle(), [args] {
    args.c_type == DType::kFloat32 ? Multiply<T, float>(args) : Multiply<T, T>(args);
  });
}

template void GemmCuda<float>(const GemmArgs&, Stream&);
template void GemmCuda<BFloat16>(const GemmArgs&, Stream&);
template void GemmCuda<Float16>(const GemmArgs&, Stream&);

}  // namespace dtrain
