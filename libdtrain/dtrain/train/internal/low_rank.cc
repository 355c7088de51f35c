// low_rank.cc - plain loops over contiguous rows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/internal/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dtrain/base/thread_pool.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/tensor/tensor.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kBlock = 32;               // columns whose sums registers hold
constexpr int64_t kGrainElements = 1 << 16;  // of a matrix, worth waking a thread for
// What is left of a row by the rows before it, relative to its length: below this, rounding.
constexpr double kDependent = 1e-6;

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

void SubtractPart(float* row, const float* direction, int64_t length) {
  const auto part = static_cast<float>(Dot(row, direction, length));
  for (int64_t i = 0; i < length; ++i) row[i] -= part * direction[i];
}

// kWidth elements of row i of P Q_sum, from column j on, added up in the order of the factors.
template <int64_t kWidth>
void WriteSums(const FactorPair& factors, const MatrixSize& size, int64_t i, int64_t j,
               float* out) {
  std::array<float, kWidth> sums{};
  for (int k = 0; k < factors.rank; ++k) {
    const float left = factors.left[k * size.rows + i];
    const float* const right = factors.sum + k * size.columns + j;
    for (int64_t lane = 0; lane < kWidth; ++lane) {
      sums[static_cast<size_t>(lane)] += left * right[lane];
    }
  }
  std::copy(sums.begin(), sums.end(), out);
}

}  // namespace

bool PaysAtRank(const MatrixSize& size, int rank) {
  return 2 * (size.rows + size.columns) * rank <= size.elements();
}

void OrthonormaliseRows(float* rows, int count, int64_t length) {
  for (int r = 0; r < count; ++r) {
    float* const row = rows + r * length;
    const double before = std::sqrt(Dot(row, row, length));
    if (before > 0.0 && std::isfinite(before)) Scale(row, length, 1.0 / before);
    for (int pass = 0; pass < 2; ++pass) {
      for (int other = 0; other < r; ++other) SubtractPart(row, rows + other * length, length);
      const double after = std::sqrt(Dot(row, row, length));
      if (!(after > kDependent)) {
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
    for (int64_t i = begin; i < end; ++i) {
      float* const m = matrix + i * size.columns;
      float* const e = error + i * size.columns;
      for (int64_t j = 0; j < size.columns; ++j) e[j] = (m[j] - e[j]) * error_scale;
      int64_t j = 0;
      for (; j + kBlock <= size.columns; j += kBlock) WriteSums<kBlock>(factors, size, i, j, m + j);
      for (; j < size.columns; ++j) WriteSums<1>(factors, size, i, j, m + j);
    }
  });
}

}  // namespace dtrain::internal
