// power_sgd_piece.cc - loops over the matrices of a piece, and its copies of the rest.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/power_sgd_piece.h"

#include <algorithm>
#include <cmath>

namespace dtrain::internal {
namespace {

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace

PowerSgdPiece::PowerSgdPiece(const FactorPiece* layout, DType wire_type, int ranks)
    : layout_(layout),
      first_(wire_type, ranks, layout->first_elements()),
      second_(wire_type, ranks, layout->right_elements),
      own_right_(static_cast<size_t>(layout->right_elements)) {}

template <typename Body>
void PowerSgdPiece::ForEachMatrix(const MatrixCompressor& compressor, const Body& body) {
  const int64_t rank = compressor.memory().rank;
  int64_t left = 0;
  int64_t right = 0;
  for (size_t matrix = layout_->first_matrix; matrix < layout_->last_matrix; ++matrix) {
    body(matrix, first_.data() + left, right);
    left += rank * compressor.SizeOfMatrix(matrix).rows;
    right += rank * compressor.SizeOfMatrix(matrix).columns;
  }
}

void PowerSgdPiece::StartShare(float* gradients, Communicator& comm) {
  share_.Start(comm.StartReduceScatter(gradients + layout_->range.begin, layout_->share_offsets,
                                       DType::kFloat32, ReduceOp::kSum));
}

void PowerSgdPiece::Encode(int64_t step, float* gradients, MatrixCompressor& compressor) {
  ForEachMatrix(compressor, [&](size_t matrix, float* left, int64_t) {
    compressor.Project(matrix, step, gradients, left);
  });
  float* rest = first_.data() + layout_->left_elements;
  for (const BucketRange& range : layout_->rest) {
    rest = std::copy_n(gradients + range.begin, range.elements(), rest);
  }
  first_.Round();
}

bool PowerSgdPiece::StartSecond(float* gradients, MatrixCompressor& compressor,
                                Communicator& comm) {
  first_.Widen();
  const bool finite = AllFinite(first_.values());
  ForEachMatrix(compressor, [&](size_t matrix, float* left, int64_t right) {
    compressor.ProjectBack(matrix, gradients, left, second_.data() + right);
  });
  if (layout_->right_elements == 0) return finite;
  // What rounding takes away from this rank's Q is part of its error.
  second_.Round();
  second_.Widen();
  own_right_ = second_.values();
  second_exchange_.Start(second_.StartSum(comm));
  return finite;
}

bool PowerSgdPiece::WriteSums(float* gradients, MatrixCompressor& compressor) {
  second_.Widen();
  const float* rest = first_.data() + layout_->left_elements;
  for (const BucketRange& range : layout_->rest) {
    std::copy_n(rest, range.elements(), gradients + range.begin);
    rest += range.elements();
  }
  ForEachMatrix(compressor, [&](size_t matrix, float* left, int64_t right) {
    compressor.Restore(matrix, left, own_right_.data() + right, second_.data() + right, gradients);
  });
  return AllFinite(second_.values());
}

void PowerSgdPiece::StartGather(float* gradients, Communicator& comm) {
  std::vector<int64_t> offsets = layout_->share_offsets;
  for (int64_t& offset : offsets) offset *= static_cast<int64_t>(sizeof(float));
  gather_.Start(comm.StartAllGatherV(gradients + layout_->range.begin, offsets));
}

void PowerSgdPiece::KeepFactors(MatrixCompressor& compressor) {
  ForEachMatrix(compressor, [&](size_t matrix, float*, int64_t right) {
    compressor.KeepFactor(matrix, second_.data() + right);
  });
}

}  // namespace dtrain::internal
