// low_rank.h - the arithmetic of PowerSGD: factors of a matrix near its strongest directions.
// SPDX-License-Identifier: Apache-2.0
//
// Factors are stored as rows: P^T [rank, rows], Q^T [rank, columns]. Values that all ranks compute
// are added in the same order for every instruction set, so that different hosts get the same bits.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_LOW_RANK_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_LOW_RANK_H_

#include <cstdint>

#include "dtrain/base/random.h"
#include "dtrain/device/stream.h"

namespace dtrain::internal {

struct MatrixSize {
  int64_t rows = 0;
  int64_t columns = 0;
  constexpr int64_t elements() const { return rows * columns; }
};

// True if the factors of rank `rank` have at most half of the matrix's elements.
bool PaysAtRank(const MatrixSize& size, int rank);

// Makes `count` rows of `length` orthonormal (modified Gram-Schmidt, twice). A row that depends on
// earlier rows becomes zero.
void OrthonormaliseRows(float* rows, int count, int64_t length);

// Scales each row to length 1. A row without length is drawn from `key`, whose site is that of the
// first row.
void NormaliseRows(float* rows, int count, int64_t length, const RandomKey& key);

// A left factor with its two products: the sum over all ranks, and this rank's part of it.
struct FactorPair {
  float* left = nullptr;       // P^T
  float* own = nullptr;        // Q^T of this rank
  const float* sum = nullptr;  // Q^T over all ranks
  int rank = 0;
};

// error = (matrix - P Q_own^T) * error_scale; matrix = P Q_sum^T. The stream belongs to the CPU.
void SplitOffError(const FactorPair& factors, const MatrixSize& size, float error_scale,
                   float* matrix, float* error, Stream& stream);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_LOW_RANK_H_
