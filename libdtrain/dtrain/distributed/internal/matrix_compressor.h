// matrix_compressor.h - one step of PowerSGD's power method on a matrix, with error feedback.
// SPDX-License-Identifier: Apache-2.0
//
// The paper's gradients are means. The gradients here are sums of a step's losses times a scale. So
// errors are kept in units of the mean loss: gradients / (scale * tokens of all ranks). Then the
// errors of a large step weigh no more in a small one than a step of its own does.
//
// Whether all sums of a step are finite is known only at its end. Therefore errors go to a second
// memory, which replaces the first one if they are.
#ifndef DTRAIN_DISTRIBUTED_INTERNAL_MATRIX_COMPRESSOR_H_
#define DTRAIN_DISTRIBUTED_INTERNAL_MATRIX_COMPRESSOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dtrain/device/stream.h"
#include "dtrain/distributed/internal/low_rank.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"

namespace dtrain::internal {

// Matrices are numbers in PowerSgdMemory::matrices. `gradients` are the flat gradients in the
// host's memory. Factors are rows: P^T [rank, rows], Q^T [rank, columns].
class MatrixCompressor {
 public:
  explicit MatrixCompressor(uint64_t seed) : seed_(seed) {}

  PowerSgdMemory& memory() { return memory_; }
  const PowerSgdMemory& memory() const { return memory_; }
  const MatrixSize& SizeOfMatrix(size_t matrix) const { return memory_.matrices[matrix].size; }
  // Takes memory for the matrices of place `place`. Errors and factors are zero.
  void Allocate(int place);
  // unit: this step's gradients are this many times those of its mean loss.
  void SetUnit(float unit) { unit_ = unit; }

  // Adds the errors to the gradients, M = gradient + error, and computes left = P^T = (M Q)^T. A
  // factor Q without length is drawn from the seed and `step`.
  void Project(size_t matrix, int64_t step, float* gradients, float* left);
  // `left` holds the sum of all P^T. Makes it orthonormal, and computes right = Q^T = P^T M.
  void ProjectBack(size_t matrix, float* gradients, float* left, float* right);
  // right_sum: the sum of all Q^T. The gradients become P Q_sum^T; the step's errors are
  // M - P Q_own^T.
  void Restore(size_t matrix, float* left, float* right, const float* right_sum, float* gradients);
  // The step was good: its factor is where the next one begins.
  void KeepFactor(size_t matrix, const float* right_sum);
  // The step was good: its errors are those of the next one.
  void KeepErrors() { memory_.errors.swap(next_errors_); }
  // The step is going to be skipped: makes all compressed gradients NaN.
  void Spoil(float* gradients) const;

 private:
  void AddErrors(const CompressedMatrix& matrix, float* gradients) const;

  uint64_t seed_;
  PowerSgdMemory memory_;
  std::vector<float> next_errors_;  // this step's, laid out like memory_.errors
  float unit_ = 1.0f;
  Stream stream_;  // of products in the host's memory
};

}  // namespace dtrain::internal

#endif  // DTRAIN_DISTRIBUTED_INTERNAL_MATRIX_COMPRESSOR_H_
