// low_rank.h - factors of a matrix close to its strongest directions: what PowerSGD computes with.
// SPDX-License-Identifier: Apache-2.0
//
// Factors are stored as rows: P^T [rank, rows], Q^T [rank, columns]. What all ranks compute adds in
// an order that is the same for every instruction set, so that unlike hosts get the same bits.
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

// Whether the factors of rank `rank` are at most half of the matrix.
bool PaysAtRank(const MatrixSize& size, int rank);

// Makes `count` rows of `length` orthonormal (modified Gram-Schmidt, twice). A row that depends on
// those before it becomes zero.
void OrthonormaliseRows(float* rows, int count, int64_t length);

// Scales each row to length 1; one without length is drawn from `key`, whose site is the first
// row's.
void NormaliseRows(float* rows, int count, int64_t length, const RandomKey& key);

// The two products of a left factor: the sum over all ranks, and this rank's part of it.
struct FactorPair {
  float* left = nullptr;       // P^T
  float* own = nullptr;        // Q^T of this rank
  const float* sum = nullptr;  // Q^T over all ranks
  int rank = 0;
};

// error = (matrix - P Q_own^T) * error_scale; matrix = P Q_sum^T. The stream is one of the CPU.
void SplitOffError(const FactorPair& factors, const MatrixSize& size, float error_scale,
                   float* matrix, float* error, Stream& stream);

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_LOW_RANK_H_
