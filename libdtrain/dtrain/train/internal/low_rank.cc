// low_rank.cc - plain loops over contiguous rows.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/internal/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dtrain/base/thread_pool.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kBlock = 256;              // columns whose products are held at once
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
                   float* matrix, float* error) {
  const int64_t grain = std::max<int64_t>(kGrainElements / std::max<int64_t>(size.columns, 1), 1);
  ParallelFor(size.rows, grain, [&](int64_t begin, int64_t end) {
    std::array<float, kBlock> own{};
    std::array<float, kBlock> sum{};
    for (int64_t first = 0; first < size.columns; first += kBlock) {
      const int64_t width = std::min(kBlock, size.columns - first);
      for (int64_t i = begin; i < end; ++i) {
        own.fill(0.0f);
        sum.fill(0.0f);
        for (int k = 0; k < factors.rank; ++k) {
          const float left = factors.left[k * size.rows + i];
          const float* const q_own = factors.own + k * size.columns + first;
          const float* const q_sum = factors.sum + k * size.columns + first;
          for (int64_t j = 0; j < width; ++j) {
            own[static_cast<size_t>(j)] += left * q_own[j];
            sum[static_cast<size_t>(j)] += left * q_sum[j];
          }
        }
        float* const m = matrix + i * size.columns + first;
        float* const e = error + i * size.columns + first;
        for (int64_t j = 0; j < width; ++j) {
          e[j] = (m[j] - own[static_cast<size_t>(j)]) * error_scale;
          m[j] = sum[static_cast<size_t>(j)];
        }
      }
    }
  });
}

}  // namespace dtrain::internal
