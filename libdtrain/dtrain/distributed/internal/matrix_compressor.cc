// matrix_compressor.cc - products with the factors, and the memory of errors.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/matrix_compressor.h"

#include <algorithm>
#include <limits>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/gemm.h"

namespace dtrain::internal {

void MatrixCompressor::Allocate(int place) {
  const MemorySize size = SizeAt(memory_, place);
  memory_.errors.assign(static_cast<size_t>(size.errors), 0.0f);
  next_errors_ = memory_.errors;
  memory_.factors.assign(static_cast<size_t>(size.factors), 0.0f);
}

void MatrixCompressor::AddErrors(const CompressedMatrix& matrix, float* gradients) const {
  float* const to = gradients + matrix.begin;
  const float* const errors = memory_.errors.data() + matrix.error_begin;
  constexpr int64_t kGrain = 1 << 16;
  ParallelFor(matrix.size.elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) to[k] += errors[k] * unit_;
  });
}

void MatrixCompressor::Project(size_t index, int64_t step, float* gradients, float* left) {
  const CompressedMatrix& matrix = memory_.matrices[index];
  const int rank = memory_.rank;
  AddErrors(matrix, gradients);
  float* const factor = memory_.factors.data() + matrix.factor_begin;
  NormaliseRows(factor, rank, matrix.size.columns,
                {.seed = seed_,
                 .step = static_cast<uint32_t>(step),
                 .site = static_cast<uint32_t>(index) * static_cast<uint32_t>(rank)});
  Tensor product = Tensor::View(left, {rank, matrix.size.rows});
  Gemm(Tensor::View(factor, {rank, matrix.size.columns}),
       Tensor::View(gradients + matrix.begin, {matrix.size.rows, matrix.size.columns}),
       {.transpose_b = true}, product, stream_);
}

void MatrixCompressor::ProjectBack(size_t index, float* gradients, float* left, float* right) {
  const CompressedMatrix& matrix = memory_.matrices[index];
  const int rank = memory_.rank;
  OrthonormaliseRows(left, rank, matrix.size.rows);
  Tensor product = Tensor::View(right, {rank, matrix.size.columns});
  Gemm(Tensor::View(left, {rank, matrix.size.rows}),
       Tensor::View(gradients + matrix.begin, {matrix.size.rows, matrix.size.columns}), {}, product,
       stream_);
}

void MatrixCompressor::Restore(size_t index, float* left, float* right, const float* right_sum,
                               float* gradients) {
  const CompressedMatrix& matrix = memory_.matrices[index];
  SplitOffError({.left = left, .own = right, .sum = right_sum, .rank = memory_.rank}, matrix.size,
                1.0f / unit_, gradients + matrix.begin, next_errors_.data() + matrix.error_begin,
                stream_);
}

void MatrixCompressor::KeepFactor(size_t index, const float* right_sum) {
  const CompressedMatrix& matrix = memory_.matrices[index];
  std::copy_n(right_sum, memory_.rank * matrix.size.columns,
              memory_.factors.data() + matrix.factor_begin);
}

void MatrixCompressor::Spoil(float* gradients) const {
  for (const CompressedMatrix& matrix : memory_.matrices) {
    std::fill_n(gradients + matrix.begin, matrix.size.elements(),
                std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace dtrain::internal
