// device_factors.cc - the memory of all pieces, and the products of each.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/device_factors.h"

#include <algorithm>
#include <utility>

#include "dtrain/device/copy.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/reduce.h"

namespace dtrain::internal {
namespace {

PowerSgdMemory MemoryOfEachRank(int factor_rank, int ranks) {
  PowerSgdMemory memory;
  memory.rank = factor_rank;
  memory.grid = EachRankAlone(ranks);
  return memory;
}

float* FloatsOf(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

}  // namespace

DeviceFactors::DeviceFactors(const Tensor& flat, const std::vector<BucketRange>& buckets,
                             const std::vector<GradientRange>& parameters,
                             const PowerSgdOptions& options, int ranks, Stream stream)
    : flat_(flat),
      stream_(std::move(stream)),
      options_(options),
      memory_(MemoryOfEachRank(options.rank, ranks)),
      layout_(buckets, parameters, /*place=*/0, &memory_) {}

template <typename Body>
void DeviceFactors::ForEachMatrix(size_t piece, const Body& body) const {
  const FactorPiece& part = layout_.pieces()[piece];
  int64_t left = places_[piece].first, right = places_[piece].second;
  for (size_t i = part.first_matrix; i < part.last_matrix; ++i) {
    const CompressedMatrix& matrix = memory_.matrices[i];
    body(matrix, left, right);
    left += memory_.rank * matrix.size.rows;
    right += memory_.rank * matrix.size.columns;
  }
}

Tensor DeviceFactors::At(const Buffer& buffer, int64_t element, const Shape& shape) const {
  return {FloatsOf(buffer) + element, shape, DType::kFloat32, flat_.device()};
}

Tensor DeviceFactors::Counts() const {
  return {broken_.data(), {2}, DType::kFloat64, flat_.device()};
}

void DeviceFactors::Allocate(int64_t step) {
  Place end;
  for (const FactorPiece& piece : layout_.pieces()) {
    places_.push_back(end);
    end.first += piece.first_elements();
    end.second += piece.right_elements;
    widest_ = std::max({widest_, piece.first_elements(), piece.right_elements});
  }
  const MemorySize size = SizeAt(memory_, /*place=*/0);
  const auto floats = [&](int64_t count) {
    return Buffer(flat_.device(), static_cast<size_t>(count) * sizeof(float));
  };
  errors_ = floats(size.errors);
  next_errors_ = floats(size.errors);
  factors_ = floats(size.factors);
  first_ = floats(end.first);
  second_ = floats(end.second);
  own_ = floats(end.second);
  broken_ = Buffer(flat_.device(), 2 * sizeof(double));
  memory_.errors.assign(static_cast<size_t>(size.errors), 0.0f);
  memory_.factors.assign(static_cast<size_t>(size.factors), 0.0f);
  Put(step);
}

PowerSgdMemory* DeviceFactors::Fetch() {
  CopyToHost(memory_.errors.data(), errors_.data(), errors_.bytes(), stream_);
  CopyToHost(memory_.factors.data(), factors_.data(), factors_.bytes(), stream_);
  return &memory_;
}

// A factor without length is drawn, as MatrixCompressor::Project() does.
void DeviceFactors::Put(int64_t step) {
  for (size_t i = 0; i < memory_.matrices.size(); ++i) {
    const CompressedMatrix& matrix = memory_.matrices[i];
    NormaliseRows(memory_.factors.data() + matrix.factor_begin, memory_.rank, matrix.size.columns,
                  {.seed = options_.seed,
                   .step = static_cast<uint32_t>(step),
                   .site = static_cast<uint32_t>(i) * static_cast<uint32_t>(memory_.rank)});
  }
  CopyToDevice(errors_.data(), memory_.errors.data(), errors_.bytes(), stream_);
  CopyToDevice(factors_.data(), memory_.factors.data(), factors_.bytes(), stream_);
}

void DeviceFactors::Begin() {
  Tensor counts = Counts();
  Zero(counts, stream_);
}

Tensor DeviceFactors::First(size_t piece) const {
  return At(first_, places_[piece].first, {layout_.pieces()[piece].first_elements()});
}

Tensor DeviceFactors::Second(size_t piece) const {
  return At(second_, places_[piece].second, {layout_.pieces()[piece].right_elements});
}

void DeviceFactors::Project(size_t piece) {
  ForEachMatrix(piece, [&](const CompressedMatrix& matrix, int64_t left, int64_t) {
    float* const gradients = flat_.data<float>() + matrix.begin;
    AddErrorsOnDevice({.gradients = gradients,
                       .errors = FloatsOf(errors_) + matrix.error_begin,
                       .elements = matrix.size.elements(),
                       .unit = unit_},
                      stream_);
    Tensor product = At(first_, left, {memory_.rank, matrix.size.rows});
    Gemm(
        At(factors_, matrix.factor_begin, {memory_.rank, matrix.size.columns}),
        Tensor(gradients, {matrix.size.rows, matrix.size.columns}, DType::kFloat32, flat_.device()),
        {.transpose_b = true}, product, stream_);
  });
  const FactorPiece& part = layout_.pieces()[piece];
  float* rest = FloatsOf(first_) + places_[piece].first + part.left_elements;
  for (const BucketRange& range : part.rest) {
    CopyOnDevice(rest, flat_.data<float>() + range.begin,
                 static_cast<size_t>(range.elements()) * sizeof(float), stream_);
    rest += range.elements();
  }
}

void DeviceFactors::ProjectBack(size_t piece) {
  Tensor counts = Counts();
  AccumulateSumOfSquares(First(piece), counts, stream_);
  std::vector<FactorRows> rows;
  ForEachMatrix(piece, [&](const CompressedMatrix& matrix, int64_t left, int64_t) {
    rows.push_back({.begin = left, .length = matrix.size.rows});
  });
  OrthonormaliseOnDevice(FloatsOf(first_), rows, memory_.rank, stream_);
  ForEachMatrix(piece, [&](const CompressedMatrix& matrix, int64_t left, int64_t right) {
    Tensor product = At(second_, right, {memory_.rank, matrix.size.columns});
    Gemm(At(first_, left, {memory_.rank, matrix.size.rows}),
         Tensor(flat_.data<float>() + matrix.begin, {matrix.size.rows, matrix.size.columns},
                DType::kFloat32, flat_.device()),
         {}, product, stream_);
  });
}

void DeviceFactors::KeepOwn(size_t piece) {
  const Tensor second = Second(piece);
  CopyOnDevice(FloatsOf(own_) + places_[piece].second, second.raw(), second.bytes(), stream_);
}

void DeviceFactors::Restore(size_t piece) {
  Tensor counts = Counts();
  const Tensor second = Second(piece);
  if (second.elements() > 0) AccumulateSumOfSquares(second, counts, stream_);
  ForEachMatrix(piece, [&](const CompressedMatrix& matrix, int64_t left, int64_t right) {
    SplitOffErrorOnDevice({.factors = {.left = FloatsOf(first_) + left,
                                       .own = FloatsOf(own_) + right,
                                       .sum = FloatsOf(second_) + right,
                                       .rank = memory_.rank},
                           .size = matrix.size,
                           .unit = unit_,
                           .matrix = flat_.data<float>() + matrix.begin,
                           .error = FloatsOf(next_errors_) + matrix.error_begin},
                          stream_);
  });
  const FactorPiece& part = layout_.pieces()[piece];
  const float* rest = FloatsOf(first_) + places_[piece].first + part.left_elements;
  for (const BucketRange& range : part.rest) {
    CopyOnDevice(flat_.data<float>() + range.begin, rest,
                 static_cast<size_t>(range.elements()) * sizeof(float), stream_);
    rest += range.elements();
  }
}

void DeviceFactors::End() {
  std::vector<KeptFactors> factors;
  std::vector<FactorRows> matrices;
  for (size_t piece = 0; piece < places_.size(); ++piece) {
    ForEachMatrix(piece, [&](const CompressedMatrix& matrix, int64_t, int64_t right) {
      factors.push_back({.from = right, .to = matrix.factor_begin, .length = matrix.size.columns});
      matrices.push_back({.begin = matrix.begin, .length = matrix.size.elements()});
    });
  }
  const double* const broken = Counts().data<double>() + 1;
  KeepErrorsOnDevice(broken, FloatsOf(next_errors_), FloatsOf(errors_),
                     static_cast<int64_t>(errors_.bytes() / sizeof(float)), stream_);
  KeepFactorsOnDevice(broken, FloatsOf(second_), FloatsOf(factors_), factors, memory_.rank,
                      stream_);
  SpoilOnDevice(broken, flat_.data<float>(), matrices, stream_);
}

}  // namespace dtrain::internal
