// bias_activation.cc - checks the arguments, then splits rows or blocks of rows among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/bias_activation.h"

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/bias_activation_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {
namespace {

// On the CPU, calls kernel<D, T>(piece) for each block of rows and adds up their column sums. On a
// GPU, calls it once for all rows.
template <typename Kernel>
void RunBiasBackward(const Tensor& x, const BiasActivationBackwardArgs& args, Tensor& d_bias,
                     const Kernel& kernel) {
  const int64_t columns = x.dim(1);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      const RowBlocks blocks(x.dim(0));
      float* const partials = d_bias ? ThreadScratch(blocks.count() * columns) : nullptr;
      ParallelFor(blocks.count(), blocks.grain(columns), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          BiasActivationBackwardArgs piece = args;
          piece.row_begin = blocks.begin(i);
          piece.row_end = blocks.end(i);
          piece.d_bias = partials == nullptr ? nullptr : partials + i * columns;
          kernel.template operator()<D, T>(piece);
        }
      });
      if (d_bias) {
        AddBlockSums(partials, blocks.count(), columns, columns, d_bias.data<float>());
      }
    } else {
      BiasActivationBackwardArgs all = args;
      all.row_end = x.dim(0);
      all.d_bias = d_bias ? d_bias.data<float>() : nullptr;
      kernel.template operator()<D, T>(all);
    }
  });
}

// The checks that both backward ops share.
void CheckBackward(const char* op, const Tensor& dy, const Tensor& x, const Tensor& dx,
                   const Tensor& d_bias, const Stream& stream) {
  CheckRank(op, "dy", dy, 2);
  CheckTensor(op, "dy", dy, dy.shape(), dy.dtype(), stream);
  CheckTensor(op, "the forward's tensor", x, dy.shape(), dy.dtype(), stream);
  CheckTensor(op, "dx", dx, dy.shape(), dy.dtype(), stream);
  CheckOptional(op, "d_bias", d_bias, {dy.dim(1)}, DType::kFloat32, stream);
}

}  // namespace

std::string_view Name(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return "relu";
    case Activation::kGeluErf:
      return "gelu_erf";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kTanh:
      return "tanh";
    case Activation::kSwish:
      return "swish";
  }
  return "";
}

void BiasActivationForward(const Tensor& x, const Tensor& bias, Activation activation,
                           const Dropout& dropout, Tensor& y, Stream& stream) {
  constexpr const char* kOp = "BiasActivationForward";
  CheckRank(kOp, "x", x, 2);
  CheckTensor(kOp, "x", x, x.shape(), x.dtype(), stream);
  CheckOptional(kOp, "bias", bias, {x.dim(1)}, x.dtype(), stream);
  CheckTensor(kOp, "y", y, x.shape(), x.dtype(), stream);
  const BiasActivationForwardArgs args = {.x = RowsOf(x),
                                          .y = RowsOf(y),
                                          .bias = bias.raw(),
                                          .activation = activation,
                                          .dropout = MakeDraw(kOp, dropout, x.dim(0), stream),
                                          .columns = x.dim(1)};
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ParallelFor(x.dim(0), RowGrain(x.dim(1)), [&](int64_t begin, int64_t end) {
        BiasActivationForwardArgs piece = args;
        piece.row_begin = begin;
        piece.row_end = end;
        BiasActivationForwardKernelCpu<T>(piece);
      });
    } else {
      BiasActivationForwardArgs all = args;
      all.row_end = x.dim(0);
      BiasActivationForwardKernelCuda<T>(all, stream);
    }
  });
}

void BiasActivationBackward(const Tensor& dy, const Tensor& x, const Tensor& bias,
                            Activation activation, const Dropout& dropout, Tensor& dx,
                            Tensor& d_bias, Stream& stream) {
  constexpr const char* kOp = "BiasActivationBackward";
  CheckBackward(kOp, dy, x, dx, d_bias, stream);
  CheckOptional(kOp, "bias", bias, {dy.dim(1)}, dy.dtype(), stream);
  RunBiasBackward(x,
                  {.dy = RowsOf(dy),
                   .x = RowsOf(x),
                   .dx = RowsOf(dx),
                   .bias = bias.raw(),
                   .activation = activation,
                   .dropout = MakeDraw(kOp, dropout, x.dim(0), stream),
                   .columns = dy.dim(1)},
                  d_bias, [&]<DeviceType D, typename T>(const BiasActivationBackwardArgs& piece) {
                    if constexpr (D == DeviceType::kCpu) {
                      BiasActivationBackwardKernelCpu<T>(piece);
                    } else {
                      BiasActivationBackwardKernelCuda<T>(piece, stream);
                    }
                  });
}

void ReluBackwardFromOutput(const Tensor& dy, const Tensor& y, const Dropout& dropout, Tensor& dx,
                            Tensor& d_bias, Stream& stream) {
  constexpr const char* kOp = "ReluBackwardFromOutput";
  CheckBackward(kOp, dy, y, dx, d_bias, stream);
  RunBiasBackward(y,
                  {.dy = RowsOf(dy),
                   .x = RowsOf(y),
                   .dx = RowsOf(dx),
                   .dropout = MakeDraw(kOp, dropout, y.dim(0), stream),
                   .columns = dy.dim(1)},
                  d_bias, [&]<DeviceType D, typename T>(const BiasActivationBackwardArgs& piece) {
                    if constexpr (D == DeviceType::kCpu) {
                      ReluBackwardFromOutputKernelCpu<T>(piece);
                    } else {
                      ReluBackwardFromOutputKernelCuda<T>(piece, stream);
                    }
                  });
}

}  // namespace dtrain
