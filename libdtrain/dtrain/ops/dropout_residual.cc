// dropout_residual.cc - checks the arguments, then splits rows or blocks of rows among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/dropout_residual.h"

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/dropout_residual_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {

void DropoutResidualForward(const Tensor& x, const Tensor& bias, const Tensor& residual,
                            const Dropout& dropout, Tensor& out, Stream& stream) {
  constexpr const char* kOp = "DropoutResidualForward";
  CheckRank(kOp, "x", x, 2);
  CheckTensor(kOp, "x", x, x.shape(), x.dtype(), stream);
  CheckOptional(kOp, "bias", bias, {x.dim(1)}, x.dtype(), stream);
  CheckOptional(kOp, "residual", residual, x.shape(), x.dtype(), stream);
  CheckTensor(kOp, "out", out, x.shape(), x.dtype(), stream);
  const DropoutResidualForwardArgs args = {.x = RowsOf(x),
                                           .residual = RowsOf(residual),
                                           .out = RowsOf(out),
                                           .bias = bias.raw(),
                                           .dropout = MakeDraw(kOp, dropout, x.dim(0), stream),
                                           .columns = x.dim(1)};
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ParallelFor(x.dim(0), RowGrain(x.dim(1)), [&](int64_t begin, int64_t end) {
        DropoutResidualForwardArgs piece = args;
        piece.row_begin = begin;
        piece.row_end = end;
        DropoutResidualForwardKernelCpu<T>(piece);
      });
    } else {
      DropoutResidualForwardArgs all = args;
      all.row_end = x.dim(0);
      DropoutResidualForwardKernelCuda<T>(all, stream);
    }
  });
}

void DropoutResidualBackward(const Tensor& d_out, const Dropout& dropout, Tensor& dx,
                             Tensor& d_bias, Stream& stream) {
  constexpr const char* kOp = "DropoutResidualBackward";
  CheckRank(kOp, "d_out", d_out, 2);
  const int64_t columns = d_out.dim(1);
  CheckTensor(kOp, "d_out", d_out, d_out.shape(), d_out.dtype(), stream);
  CheckTensor(kOp, "dx", dx, d_out.shape(), d_out.dtype(), stream);
  CheckOptional(kOp, "d_bias", d_bias, {columns}, DType::kFloat32, stream);
  const DropoutResidualBackwardArgs args = {.d_out = RowsOf(d_out),
                                            .dx = RowsOf(dx),
                                            .dropout = MakeDraw(kOp, dropout, d_out.dim(0), stream),
                                            .columns = columns};
  DispatchFloat(d_out, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      const RowBlocks blocks(d_out.dim(0));
      float* const partials = d_bias ? ThreadScratch(blocks.count() * columns) : nullptr;
      ParallelFor(blocks.count(), blocks.grain(columns), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          DropoutResidualBackwardArgs piece = args;
          piece.row_begin = blocks.begin(i);
          piece.row_end = blocks.end(i);
          piece.d_bias = partials == nullptr ? nullptr : partials + i * columns;
          DropoutResidualBackwardKernelCpu<T>(piece);
        }
      });
      if (d_bias) {
        AddBlockSums(partials, blocks.count(), columns, columns, d_bias.data<float>());
      }
    } else {
      DropoutResidualBackwardArgs all = args;
      all.row_end = d_out.dim(0);
      all.d_bias = d_bias ? d_bias.data<float>() : nullptr;
      DropoutResidualBackwardKernelCuda<T>(all, stream);
    }
  });
}

}  // namespace dtrain
