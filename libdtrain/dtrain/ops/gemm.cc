// gemm.cc - checks the matrix products and selects the device's kernel.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/gemm.h"

#include "dtrain/device/copy.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/ops/internal/gemm_args.h"
#include "dtrain/ops/internal/op_support.h"
#include "dtrain/ops/reduce.h"

namespace dtrain {
namespace {

void CheckMatrix(const Tensor& x, const char* name) {
  DT_CHECK_EQ(x.shape().rank(), 2) << name << " is a matrix";
}

// A product without terms (k = 0): sets c to 0 unless it accumulates.
void FillEmptyProduct(const GemmOptions& options, const Tensor& c, Stream& stream) {
  if (options.accumulate) return;
  const size_t size = SizeOf(c.dtype());
  FillWithZeros(c.raw(), static_cast<size_t>(c.row_stride()) * size,
                static_cast<size_t>(c.dim(1)) * size, static_cast<size_t>(c.dim(0)), stream);
}

void Run(const GemmArgs& args, const Tensor& a, Stream& stream) {
  DT_CHECK_EQ(DeviceName(stream.device()), DeviceName(a.device()));
  DispatchFloat(a, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      GemmCpu<T>(args);
    } else {
      GemmCuda<T>(args, stream);
    }
  });
}

}  // namespace

void Gemm(const Tensor& a, const Tensor& b, const GemmOptions& options, Tensor& c, Stream& stream) {
  CheckMatrix(a, "a");
  CheckMatrix(b, "b");
  CheckMatrix(c, "c");
  const int64_t m = a.dim(options.transpose_a ? 1 : 0);
  const int64_t k = a.dim(options.transpose_a ? 0 : 1);
  const int64_t n = b.dim(options.transpose_b ? 0 : 1);
  DT_CHECK_EQ(b.dim(options.transpose_b ? 1 : 0), k)
      << "op(a) must have as many columns as op(b) has rows";
  DT_CHECK_EQ(c.dim(0), m) << "c must have as many rows as op(a)";
  DT_CHECK_EQ(c.dim(1), n) << "c must have as many columns as op(b)";
  DT_CHECK_EQ(Name(a.dtype()), Name(b.dtype())) << "a and b must have the same type";
  DT_CHECK(c.dtype() == a.dtype() || c.dtype() == DType::kFloat32)
      << "c holds " << Name(c.dtype()) << ", a holds " << Name(a.dtype());
  if (m == 0 || n == 0) return;
  if (k == 0) return FillEmptyProduct(options, c, stream);
  Run(ArgsOf(a, b, options, c), a, stream);
}

void LinearForward(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                   Stream& stream) {
  CheckMatrix(x, "x");
  CheckMatrix(weight, "weight");
  CheckMatrix(y, "y");
  DT_CHECK_EQ(weight.dim(1), x.dim(1)) << "weight is [out, in]";
  DT_CHECK_GT(x.dim(1), 0) << "a linear layer must have inputs";
  DT_CHECK_EQ(y.dim(0), x.dim(0)) << "y must have as many rows as x";
  DT_CHECK_EQ(y.dim(1), weight.dim(0)) << "y must have one column per row of weight";
  DT_CHECK_EQ(Name(weight.dtype()), Name(x.dtype())) << "x and weight must have the same type";
  DT_CHECK_EQ(Name(y.dtype()), Name(x.dtype())) << "x and y must have the same type";
  if (bias) {
    DT_CHECK_EQ(bias.shape(), Shape({weight.dim(0)})) << "bias must have one entry per output";
    DT_CHECK_EQ(Name(bias.dtype()), Name(x.dtype())) << "x and bias must have the same type";
  }
  if (y.elements() == 0) return;
  GemmArgs args = ArgsOf(x, weight, {.transpose_b = true}, y);
  if (bias) args.bias = bias.raw();
  Run(args, x, stream);
}

void LinearBackwardParameters(const Tensor& dy, const Tensor& x,
                              const LinearBackwardOptions& options, Tensor& d_weight,
                              Tensor& d_bias, Stream& stream) {
  const GemmOptions product = {.transpose_a = true, .accumulate = options.accumulate_weight};
  const auto parts = [&] {
    if (d_bias) AccumulateColumnSums(dy, d_bias, stream);
    Gemm(dy, x, product, d_weight, stream);
  };
  if (!d_bias || stream.device().type == DeviceType::kCpu) return parts();
  constexpr const char* kOp = "LinearBackwardParameters";
  CheckRank(kOp, "dy", dy, 2);
  CheckRank(kOp, "x", x, 2);
  CheckTensor(kOp, "x", x, {dy.dim(0), x.dim(1)}, dy.dtype(), stream);
  CheckTensor(kOp, "d_weight", d_weight, {dy.dim(1), x.dim(1)}, DType::kFloat32, stream);
  CheckTensor(kOp, "d_bias", d_bias, {dy.dim(1)}, DType::kFloat32, stream);
  if (dy.elements() == 0 || x.elements() == 0) return parts();
  bool is_done = false;
  if constexpr (kWithCuda) {
    GemmArgs args = ArgsOf(dy, x, product, d_weight);
    args.epilogue = cuda::Epilogue::kBiasGradient;
    args.bias_gradient = d_bias.data<float>();
    DispatchFloat(dy, [&]<DeviceType D, typename T>() {
      if constexpr (D == DeviceType::kCuda) is_done = FusedGemmCuda<T>(args, parts, stream);
    });
  }
  if (!is_done) parts();
}

}  // namespace dtrain
