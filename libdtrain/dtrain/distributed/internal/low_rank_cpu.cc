// low_rank_cpu.cc - products and sums with the same bits for every instruction set.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks on unlike processors must get the same sums. So each sum is added in an order that does not
// depend on the width of vectors, and products are rounded before they are added: this file is
// compiled without fused multiply-adds and without licence to reorder. A tile of the product stays
// in registers for all factors, which leaves one load for each row of the tile's multiplications.
#include "dtrain/base/internal/simd.h"
#include "dtrain/distributed/internal/low_rank_kernel.h"

namespace dtrain::DT_CPU_ISA {
namespace {

// Partial sums of a dot product, which lie side by side in vectors of any width.
constexpr int kPartialSums = 64;

// Tiles of rows x vectors.
#if defined(__AVX512F__) || defined(DT_NEON)
constexpr int kTileRows = 4, kTileVectors = 4;
#elif defined(__AVX2__)
constexpr int kTileRows = 2, kTileVectors = 4;
#else
constexpr int kTileRows = 1, kTileVectors = 8;
#endif

// Rows [i, i + kRows) of the product, kVectors vectors from column j on.
template <int kRows, int kVectors>
void MultiplyTile(const FactorProductArgs& args, int64_t i, int64_t j) {
  Vec sums[kRows][kVectors] = {};
  const float* left = args.left + i;
  const float* right = args.right + j;
  for (int k = 0; k < args.rank; ++k, left += args.rows, right += args.columns) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec columns = Load(right + v * kLanes);
      for (int r = 0; r < kRows; ++r) sums[r][v] += columns * left[r];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* const to = args.product + (i + r) * args.columns + j;
    for (int v = 0; v < kVectors; ++v) Store(to + v * kLanes, sums[r][v]);
  }
}

template <int kRows>
void MultiplyRows(const FactorProductArgs& args, int64_t i) {
  int64_t j = 0;
  for (; j + kTileVectors * kLanes <= args.columns; j += kTileVectors * kLanes) {
    MultiplyTile<kRows, kTileVectors>(args, i, j);
  }
  for (; j + kLanes <= args.columns; j += kLanes) MultiplyTile<kRows, 1>(args, i, j);
  for (; j < args.columns; ++j) {
    for (int r = 0; r < kRows; ++r) {
      float sum = 0.0f;
      for (int k = 0; k < args.rank; ++k) {
        sum += args.right[k * args.columns + j] * args.left[k * args.rows + i + r];
      }
      args.product[(i + r) * args.columns + j] = sum;
    }
  }
}

}  // namespace

template <typename T>
void FactorProductKernel(const FactorProductArgs& args) {
  int64_t i = args.begin;
  for (; i + kTileRows <= args.end; i += kTileRows) MultiplyRows<kTileRows>(args, i);
  for (; i < args.end; ++i) MultiplyRows<1>(args, i);
}

template <typename T>
void SubtractProjectionKernel(const SubtractProjectionArgs& args) {
  constexpr int kVectors = kPartialSums / kLanes;
  Vec partial[kVectors] = {};
  int64_t i = 0;
  for (; i + kPartialSums <= args.length; i += kPartialSums) {
    for (int v = 0; v < kVectors; ++v) {
      partial[v] += Load(args.row + i + v * kLanes) * Load(args.direction + i + v * kLanes);
    }
  }
  float sums[kPartialSums];
  for (int v = 0; v < kVectors; ++v) Store(sums + v * kLanes, partial[v]);
  for (int k = 0; i < args.length; ++i, ++k) sums[k] += args.row[i] * args.direction[i];
  for (int half = kPartialSums / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
  }
  const float factor = sums[0];
  for (i = 0; i + kLanes <= args.length; i += kLanes) {
    Store(args.row + i, Load(args.row + i) - Load(args.direction + i) * factor);
  }
  for (; i < args.length; ++i) args.row[i] -= args.direction[i] * factor;
}

template void FactorProductKernel<float>(const FactorProductArgs&);
template void SubtractProjectionKernel<float>(const SubtractProjectionArgs&);

}  // namespace dtrain::DT_CPU_ISA
