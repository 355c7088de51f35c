// layer_norm.cc - checks the arguments, then splits rows or blocks of rows among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/layer_norm.h"

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/layer_norm_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {
namespace {

// The checks that all four ops share: x and other tensors of one shape and type, vectors of one
// element per column or row.
struct Checker {
  Checker(const char* op_name, const Tensor& x, const Stream& s) : op(op_name), stream(s) {
    CheckRank(op, "x", x, 2);
    shape = x.shape();
    dtype = x.dtype();
    DT_CHECK_GE(shape[1], 1) << op << ": rows must have at least one column";
    Matrix("x", x);
  }
  void Matrix(const char* name, const Tensor& t) const {
    CheckTensor(op, name, t, shape, dtype, stream);
  }
  void Columns(const char* name, const Tensor& t) const {
    CheckTensor(op, name, t, {shape[1]}, DType::kFloat32, stream);
  }
  void OptionalColumns(const char* name, const Tensor& t) const {
    CheckOptional(op, name, t, {shape[1]}, DType::kFloat32, stream);
  }
  void PerRow(const char* name, const Tensor& t) const {
    CheckTensor(op, name, t, {shape[0]}, DType::kFloat32, stream);
  }

  const char* op;
  const Stream& stream;
  Shape shape;
  DType dtype = DType::kFloat32;
};

float* FloatsOrNull(const Tensor& t) { return t ? t.data<float>() : nullptr; }

void RunForward(const Tensor& x, const LayerNormForwardArgs& args, Stream& stream) {
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ParallelFor(x.dim(0), RowGrain(x.dim(1)), [&](int64_t begin, int64_t end) {
        LayerNormForwardArgs piece = args;
        piece.row_begin = begin;
        piece.row_end = end;
        LayerNormForwardKernelCpu<T>(piece);
      });
    } else {
      LayerNormForwardArgs all = args;
      all.row_end = x.dim(0);
      LayerNormForwardKernelCuda<T>(all, stream);
    }
  });
}

// Adds to d_gamma and, unless null, d_beta and d_bias of `args`.
void RunNormBackward(const Tensor& x, const LayerNormBackwardArgs& args, Stream& stream) {
  const int64_t columns = x.dim(1);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      const RowBlocks blocks(x.dim(0));
      float* const partials = ThreadScratch(blocks.count() * 3 * columns);
      ParallelFor(blocks.count(), blocks.grain(columns), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          LayerNormBackwardArgs piece = args;
          piece.row_begin = blocks.begin(i);
          piece.row_end = blocks.end(i);
          piece.d_gamma = partials + 3 * i * columns;
          piece.d_beta = args.d_beta == nullptr ? nullptr : piece.d_gamma + columns;
          piece.d_bias = args.d_bias == nullptr ? nullptr : piece.d_gamma + 2 * columns;
          LayerNormBackwardKernelCpu<T>(piece);
        }
      });
      AddBlockSums(partials, blocks.count(), 3 * columns, columns, args.d_gamma);
      AddBlockSums(partials + columns, blocks.count(), 3 * columns, columns, args.d_beta);
      AddBlockSums(partials + 2 * columns, blocks.count(), 3 * columns, columns, args.d_bias);
    } else {
      LayerNormBackwardArgs all = args;
      all.row_end = x.dim(0);
      LayerNormBackwardKernelCuda<T>(all, stream);
    }
  });
}

}  // namespace

void LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon,
                      Tensor& y, Tensor& mean, Tensor& rstd, Stream& stream) {
  const Checker check("LayerNormForward", x, stream);
  check.Matrix("y", y);
  check.Columns("gamma", gamma);
  check.OptionalColumns("beta", beta);
  check.PerRow("mean", mean);
  check.PerRow("rstd", rstd);
  RunForward(x,
             {.x = RowsOf(x),
              .y = RowsOf(y),
              .gamma = gamma.data<float>(),
              .beta = FloatsOrNull(beta),
              .mean = mean.data<float>(),
              .rstd = rstd.data<float>(),
              .epsilon = epsilon,
              .columns = x.dim(1)},
             stream);
}

void LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                       const Tensor& rstd, const Tensor& d_residual, Tensor& dx, Tensor& d_gamma,
                       Tensor& d_beta, Stream& stream) {
  const Checker check("LayerNormBackward", x, stream);
  check.Matrix("dy", dy);
  if (d_residual) check.Matrix("d_residual", d_residual);
  check.Matrix("dx", dx);
  check.Columns("gamma", gamma);
  check.PerRow("mean", mean);
  check.PerRow("rstd", rstd);
  check.Columns("d_gamma", d_gamma);
  check.OptionalColumns("d_beta", d_beta);
  RunNormBackward(x,
                  {.dy = RowsOf(dy),
                   .x = RowsOf(x),
                   .d_residual = RowsOf(d_residual),
                   .d_x = RowsOf(dx),
                   .gamma = gamma.data<float>(),
                   .mean = mean.data<float>(),
                   .rstd = rstd.data<float>(),
                   .d_gamma = d_gamma.data<float>(),
                   .d_beta = FloatsOrNull(d_beta),
                   .columns = x.dim(1)},
                  stream);
}

void ResidualLayerNormForward(const Tensor& x, const Tensor& bias, const Tensor& residual,
                              const Dropout& dropout, const Tensor& gamma, const Tensor& beta,
                              float epsilon, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd,
                              Stream& stream) {
  const Checker check("ResidualLayerNormForward", x, stream);
  CheckOptional(check.op, "bias", bias, {x.dim(1)}, x.dtype(), stream);
  check.Matrix("residual", residual);
  check.Columns("gamma", gamma);
  check.OptionalColumns("beta", beta);
  check.Matrix("sum", sum);
  check.Matrix("y", y);
  check.PerRow("mean", mean);
  check.PerRow("rstd", rstd);
  RunForward(x,
             {.x = RowsOf(x),
              .residual = RowsOf(residual),
              .sum = RowsOf(sum),
              .y = RowsOf(y),
              .bias = bias.raw(),
              .gamma = gamma.data<float>(),
              .beta = FloatsOrNull(beta),
              .mean = mean.data<float>(),
              .rstd = rstd.data<float>(),
              .epsilon = epsilon,
              .dropout = MakeDraw(check.op, dropout, x.dim(0), stream),
              .columns = x.dim(1)},
             stream);
}

void ResidualLayerNormBackward(const Tensor& dy, const Tensor& sum, const Tensor& gamma,
                               const Tensor& mean, const Tensor& rstd, const Dropout& dropout,
                               Tensor& d_sum, Tensor& dx, Tensor& d_bias, Tensor& d_gamma,
                               Tensor& d_beta, Stream& stream) {
  const Checker check("ResidualLayerNormBackward", sum, stream);
  check.Matrix("dy", dy);
  check.Columns("gamma", gamma);
  check.PerRow("mean", mean);
  check.PerRow("rstd", rstd);
  check.Matrix("d_sum", d_sum);
  check.Matrix("dx", dx);
  CheckOptional(check.op, "d_bias", d_bias, {sum.dim(1)}, DType::kFloat32, stream);
  check.Columns("d_gamma", d_gamma);
  check.OptionalColumns("d_beta", d_beta);
  const DropoutDraw draw = MakeDraw(check.op, dropout, sum.dim(0), stream);
  DT_CHECK(!draw.on || dx.raw() != d_sum.raw() || dx.elements() == 0)
      << check.op << ": with dropout, dx and d_sum must not share memory";
  RunNormBackward(sum,
                  {.dy = RowsOf(dy),
                   .x = RowsOf(sum),
                   .d_x = RowsOf(d_sum),
                   .d_dropped = dx.raw() == d_sum.raw() ? Rows{} : RowsOf(dx),
                   .gamma = gamma.data<float>(),
                   .mean = mean.data<float>(),
                   .rstd = rstd.data<float>(),
                   .d_gamma = d_gamma.data<float>(),
                   .d_beta = FloatsOrNull(d_beta),
                   .d_bias = FloatsOrNull(d_bias),
                   .dropout = draw,
                   .columns = sum.dim(1)},
                  stream);
}

}  // namespace dtrain
