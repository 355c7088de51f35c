// low_rank.cc - Gram-Schmidt, and the error beside the sum.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/internal/low_rank_kernel.h"
#include "dtrain/ops/gemm.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kGrainElements = 1 << 16;  // of a matrix, worth waking a thread for
// What the rows before a row must leave of its length, in the first pass and in the second: less is
// rounding. What the first pass leaves of a dependent row may be longer where rows are long, but
// then most of it lies in the rows before and the second pass takes it away.
constexpr std::array<double, 2> kLeast = {1e-6, 0.5};

// In double, so that no square overflows or vanishes.
double Dot(const float* a, const float* b, int64_t length) {
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<size_t>(lane)] += double{a[i + lane]} * double{b[i + lane]};
    }
  }
  for (; i < length; ++i) sums[0] += double{a[i]} * double{b[i]};
  double sum = 0.0;
  for (const double lane : sums) sum += lane;
  return sum;
}

void Scale(float* row, int64_t length, double factor) {
  for (int64_t i = 0; i < length; ++i) row[i] = static_cast<float>(double{row[i]} * factor);
}

}  // namespace

bool PaysAtRank(const MatrixSize& size, int rank) {
  return size.elements() > 0 && 2 * (size.rows + size.columns) * rank <= size.elements();
}

void OrthonormaliseRows(float* rows, int count, int64_t length) {
  for (int r = 0; r < count; ++r) {
    float* const row = rows + r * length;
    const double before = std::sqrt(Dot(row, row, length));
    if (before > 0.0 && std::isfinite(before)) Scale(row, length, 1.0 / before);
    for (const double least : kLeast) {
      for (int other = 0; other < r; ++other) {
        SubtractProjectionKernelCpu<float>(
            {.row = row, .direction = rows + other * length, .length = length});
      }
      const double after = std::sqrt(Dot(row, row, length));
      if (!(after > least)) {
        std::fill(row, row + length, 0.0f);
        break;
      }
      Scale(row, length, 1.0 / after);
    }
  }
}

void NormaliseRows(float* rows, int count, int64_t length, const RandomKey& key) {
  for (int r = 0; r < count; ++r) {
    float* const row = rows + r * length;
    double norm = std::sqrt(Dot(row, row, length));
    if (norm == 0.0) {
      RandomKey own = key;
      own.site += static_cast<uint32_t>(r);
      RandomStream random(own);
      for (int64_t i = 0; i < length; ++i) row[i] = random.NextUniform() - 0.5f;
      norm = std::sqrt(Dot(row, row, length));
    }
    Scale(row, length, 1.0 / norm);
  }
}

void SplitOffError(const FactorPair& factors, const MatrixSize& size, float error_scale,
                   float* matrix, float* error, Stream& stream) {
  Tensor own = Tensor::View(error, {size.rows, size.columns});
  // No other rank needs its bits.
  Gemm(Tensor::View(factors.left, {factors.rank, size.rows}),
       Tensor::View(factors.own, {factors.rank, size.columns}), {.transpose_a = true}, own, stream);
  const int64_t grain = std::max<int64_t>(kGrainElements / std::max<int64_t>(size.columns, 1), 1);
  ParallelFor(size.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin * size.columns; k < end * size.columns; ++k) {
      error[k] = (matrix[k] - error[k]) * error_scale;
    }
    FactorProductKernelCpu<float>({.left = factors.left,
                                   .right = factors.sum,
                                   .product = matrix,
                                   .rank = factors.rank,
                                   .rows = size.rows,
                                   .columns = size.columns,
                                   .begin = begin,
                                   .end = end});
  });
}

}  // namespace dtrain::internal
