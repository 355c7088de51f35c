// reduce.cc - sums blocks of fixed size in parallel, then adds the blocks in order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/reduce.h"

#include <array>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/op_support.h"
#include "dtrain/ops/internal/reduce_kernel.h"

namespace dtrain {
namespace {

// Splits a tensor, whose rows may be strided, into runs of at most kSumBlock consecutive elements.
class Runs {
 public:
  explicit Runs(const Tensor& x) {
    const bool one_row = x.is_contiguous();
    const int64_t rows = one_row ? 1 : x.dim(0);
    columns_ = one_row ? x.elements() : x.elements() / std::max<int64_t>(1, rows);
    stride_ = one_row ? 0 : x.row_stride();
    per_row_ = (columns_ + kSumBlock - 1) / kSumBlock;
    count_ = rows * per_row_;
  }

  int64_t count() const { return count_; }
  // Start of run i in the tensor's memory, in elements, and its length.
  int64_t offset(int64_t i) const { return i / per_row_ * stride_ + i % per_row_ * kSumBlock; }
  int64_t length(int64_t i) const {
    return std::min(kSumBlock, columns_ - i % per_row_ * kSumBlock);
  }
  int64_t grain() const {
    return std::max<int64_t>(1, kGrainElements / std::clamp<int64_t>(columns_, 1, kSumBlock));
  }

 private:
  int64_t columns_, stride_, per_row_, count_;
};

// Describes x as rows and columns; a contiguous tensor is a single row.
SumRowsArgs MatrixToSum(const Tensor& x) {
  if (x.is_contiguous()) return {.x = {.data = x.raw()}, .rows = 1, .columns = x.elements()};
  return {.x = RowsOf(x), .rows = x.dim(0), .columns = x.elements() / x.dim(0)};
}

// The sum of all elements: sums blocks, then adds the blocks in order.
template <typename T>
double SumOnCpu(const Tensor& x) {
  const Runs runs(x);
  std::vector<double> sums(static_cast<size_t>(runs.count()));
  ParallelFor(runs.count(), runs.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      SumKernelCpu<T>({.x = x.data<T>() + runs.offset(i),
                       .n = runs.length(i),
                       .sum = &sums[static_cast<size_t>(i)]});
    }
  });
  double sum = 0.0;
  for (const double part : sums) sum += part;
  return sum;
}

void CheckSquares(const char* op, const Tensor& x, const Tensor& out, const Stream& stream) {
  CheckTensor(op, "x", x, x.shape(), DType::kFloat32, stream);
  CheckContiguous(op, "x", x);
  CheckTensor(op, "out", out, {2}, DType::kFloat64, stream);
}

// out = {sum of squares, number of NaNs and infinities}.
void SquaresOnCpu(const Tensor& x, Tensor& out, Stream& stream) {
  const int64_t count = Runs(x).count();
  std::vector<double> sums(static_cast<size_t>(2 * std::max<int64_t>(count, 1)));
  Tensor blocks(sums.data(), {count, 2}, DType::kFloat64);
  BlockSumsOfSquares(x, blocks, stream);
  TotalOfBlocks(blocks, out);
}

}  // namespace

void AccumulateColumnSums(const Tensor& x, Tensor& sums, Stream& stream) {
  CheckRank("AccumulateColumnSums", "x", x, 2);
  const int64_t columns = x.dim(1);
  CheckTensor("AccumulateColumnSums", "x", x, x.shape(), x.dtype(), stream);
  CheckTensor("AccumulateColumnSums", "sums", sums, {columns}, DType::kFloat32, stream);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      const RowBlocks blocks(x.dim(0));
      float* const partials = ThreadScratch(blocks.count() * columns);
      ParallelFor(blocks.count(), blocks.grain(columns), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          ColumnSumsKernelCpu<T>({.x = RowsOf(x),
                                  .row_begin = blocks.begin(i),
                                  .row_end = blocks.end(i),
                                  .columns = columns,
                                  .sums = partials + i * columns});
        }
      });
      AddBlockSums(partials, blocks.count(), columns, columns, sums.data<float>());
    } else {
      ColumnSumsKernelCuda<T>(
          {.x = RowsOf(x), .row_end = x.dim(0), .columns = columns, .sums = sums.data<float>()},
          stream);
    }
  });
}

void Sum(const Tensor& x, Tensor& total, Stream& stream) {
  const bool is_double = total.dtype() == DType::kFloat64;
  CheckTensor("Sum", "x", x, x.shape(), x.dtype(), stream);
  CheckTensor("Sum", "total", total, {1}, is_double ? DType::kFloat64 : DType::kFloat32, stream);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      const double sum = SumOnCpu<T>(x);
      if (is_double) {
        *total.data<double>() = sum;
      } else {
        *total.data<float>() = static_cast<float>(sum);
      }
    } else {
      SumRowsArgs args = MatrixToSum(x);
      args.as_double = is_double ? total.data<double>() : nullptr;
      args.as_float = is_double ? nullptr : total.data<float>();
      SumKernelCuda<T>(args, stream);
    }
  });
}

void AccumulateSum(const Tensor& x, Tensor& total, Stream& stream) {
  CheckTensor("AccumulateSum", "x", x, x.shape(), x.dtype(), stream);
  CheckTensor("AccumulateSum", "total", total, {1}, DType::kFloat64, stream);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      *total.data<double>() += SumOnCpu<T>(x);
    } else {
      SumRowsArgs args = MatrixToSum(x);
      args.as_double = total.data<double>();
      args.accumulate = true;
      SumKernelCuda<T>(args, stream);
    }
  });
}

void SumOfSquares(const Tensor& x, Tensor& out, Stream& stream) {
  CheckSquares("SumOfSquares", x, out, stream);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      SquaresOnCpu(x, out, stream);
    } else {
      SumRowsArgs args = MatrixToSum(x);
      args.as_double = out.data<double>();
      SumOfSquaresKernelCuda(args, stream);
    }
  });
}

void AccumulateSumOfSquares(const Tensor& x, Tensor& out, Stream& stream) {
  CheckSquares("AccumulateSumOfSquares", x, out, stream);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      std::array<double, 2> own = {};
      Tensor sums(own.data(), {2}, DType::kFloat64);
      SquaresOnCpu(x, sums, stream);
      for (size_t i = 0; i < own.size(); ++i) out.data<double>()[i] += own[i];
    } else {
      SumRowsArgs args = MatrixToSum(x);
      args.as_double = out.data<double>();
      args.accumulate = true;
      SumOfSquaresKernelCuda(args, stream);
    }
  });
}

void BlockSumsOfSquares(const Tensor& x, Tensor& blocks, Stream& stream) {
  DT_CHECK(x.device().type == DeviceType::kCpu) << "BlockSumsOfSquares() supports CPUs only";
  CheckTensor("BlockSumsOfSquares", "x", x, x.shape(), DType::kFloat32, stream);
  CheckContiguous("BlockSumsOfSquares", "x", x);
  const Runs runs(x);
  CheckTensor("BlockSumsOfSquares", "blocks", blocks, {runs.count(), 2}, DType::kFloat64, stream);
  double* const sums = blocks.data<double>();
  ParallelFor(runs.count(), runs.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      SumOfSquaresKernelCpu<float>(
          {.x = x.data<float>() + runs.offset(i), .n = runs.length(i), .out = sums + 2 * i});
    }
  });
}

void TotalOfBlocks(const Tensor& blocks, Tensor& out) {
  const double* const sums = blocks.data<double>();
  double* const totals = out.data<double>();
  totals[0] = totals[1] = 0.0;
  for (int64_t i = 0; i < blocks.elements(); i += 2) {
    totals[0] += sums[i];
    totals[1] += sums[i + 1];
  }
}

}  // namespace dtrain
