// gated_activation.cc - checks the arguments, then splits rows among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/gated_activation.h"

#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/gated_activation_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {
namespace {

// y or dy tells the shape: x and dx have twice its columns.
void CheckHalves(const char* op, const char* name, const Tensor& x, const Tensor& y,
                 const Stream& stream) {
  CheckTensor(op, name, x, {y.dim(0), 2 * y.dim(1)}, y.dtype(), stream);
}

Rows FirstHalf(const Tensor& x) { return RowsOf(x.Columns(0, x.dim(1) / 2)); }
Rows SecondHalf(const Tensor& x) { return RowsOf(x.Columns(x.dim(1) / 2, x.dim(1))); }

}  // namespace

void GatedActivationForward(const Tensor& x, Activation activation, const Dropout& dropout,
                            Tensor& y, Stream& stream) {
  constexpr const char* kOp = "GatedActivationForward";
  CheckRank(kOp, "y", y, 2);
  CheckTensor(kOp, "y", y, y.shape(), y.dtype(), stream);
  CheckHalves(kOp, "x", x, y, stream);
  const GatedActivationForwardArgs args = {.a = FirstHalf(x),
                                           .g = SecondHalf(x),
                                           .y = RowsOf(y),
                                           .activation = activation,
                                           .dropout = MakeDraw(kOp, dropout, y.dim(0), stream),
                                           .columns = y.dim(1)};
  DispatchFloat(y, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ParallelFor(y.dim(0), RowGrain(y.dim(1)), [&](int64_t begin, int64_t end) {
        GatedActivationForwardArgs piece = args;
        piece.row_begin = begin;
        piece.row_end = end;
        GatedActivationForwardKernelCpu<T>(piece);
      });
    } else {
      GatedActivationForwardArgs all = args;
      all.row_end = y.dim(0);
      GatedActivationForwardKernelCuda<T>(all, stream);
    }
  });
}

void GatedActivationBackward(const Tensor& dy, const Tensor& x, Activation activation,
                             const Dropout& dropout, Tensor& dx, Stream& stream) {
  constexpr const char* kOp = "GatedActivationBackward";
  CheckRank(kOp, "dy", dy, 2);
  CheckTensor(kOp, "dy", dy, dy.shape(), dy.dtype(), stream);
  CheckHalves(kOp, "x", x, dy, stream);
  CheckHalves(kOp, "dx", dx, dy, stream);
  const GatedActivationBackwardArgs args = {.dy = RowsOf(dy),
                                            .a = FirstHalf(x),
                                            .g = SecondHalf(x),
                                            .da = FirstHalf(dx),
                                            .dg = SecondHalf(dx),
                                            .activation = activation,
                                            .dropout = MakeDraw(kOp, dropout, dy.dim(0), stream),
                                            .columns = dy.dim(1)};
  DispatchFloat(dy, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ParallelFor(dy.dim(0), RowGrain(dy.dim(1)), [&](int64_t begin, int64_t end) {
        GatedActivationBackwardArgs piece = args;
        piece.row_begin = begin;
        piece.row_end = end;
        GatedActivationBackwardKernelCpu<T>(piece);
      });
    } else {
      GatedActivationBackwardArgs all = args;
      all.row_end = dy.dim(0);
      GatedActivationBackwardKernelCuda<T>(all, stream);
    }
  });
}

}  // namespace dtrain
