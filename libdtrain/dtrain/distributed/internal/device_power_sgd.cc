// device_power_sgd.cc - both exchanges of a bucket, one after the other in a stream.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/device_power_sgd.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/stream_order.h"
#include "dtrain/distributed/internal/device_exchange.h"
#include "dtrain/distributed/internal/device_low_rank.h"
#include "dtrain/distributed/internal/factor_layout.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/reduce.h"

namespace dtrain::internal {
namespace {

PowerSgdMemory MemoryOfEachRank(int factor_rank, int size) {
  PowerSgdMemory memory;
  memory.rank = factor_rank;
  memory.grid = EachRankAlone(size);
  return memory;
}

class DevicePowerSgd final : public CompressedExchange {
 public:
  DevicePowerSgd(const Tensor& flat, const std::vector<BucketRange>& buckets,
                 const std::vector<GradientRange>& parameters, const Communicator& comm,
                 std::shared_ptr<DeviceCommunicator> gpus, const GradientReducerOptions& options)
      : flat_(flat),
        compute_(*options.stream),
        wire_type_(options.wire_type),
        rank_(comm.rank()),
        ranks_(comm.size()),
        options_(options.power_sgd),
        memory_(MemoryOfEachRank(options.power_sgd.rank, comm.size())),
        layout_(buckets, parameters, /*place=*/0, &memory_),
        plain_(MakeDeviceExchange(
            flat, buckets, gpus,
            {.rank = rank_, .size = ranks_, .compute = compute_, .wire_type = wire_type_})),
        gpus_(std::move(gpus)) {
    WarnIfNothingShrinks(memory_, comm);
    SetStep(0);
  }

  void SetGradientScale(const Tensor& scale) override { unit_.scale = scale.data<float>(); }
  void SetGradientTokens(double tokens) override { unit_.tokens = tokens; }
  void SetStep(int64_t step) override;
  PowerSgdMemory* memory() override;
  void PutMemory() override;

  void Start(int bucket) override;
  void Poll() override { gpus_->Poll(); }
  void Land(int /*bucket*/) override {}
  void Settle() override;
  int64_t BytesOf(int bucket) const override;

 private:
  // What the device holds of a piece, in elements from the beginning of first_ and second_.
  struct Place {
    int64_t first = 0, second = 0;
  };

  void Allocate();
  // Both exchanges of a piece.
  void Exchange(const FactorPiece& piece, const Place& place);
  void Project(const FactorPiece& piece, const Place& place);
  void ProjectBack(const FactorPiece& piece, const Place& place);
  void Restore(const FactorPiece& piece, const Place& place);
  // Rounds the values to the wire type. What is left of them is what the others see.
  void Round(Tensor& values);
  // The values, which are rounded, become their sum over all ranks.
  void Sum(Tensor& values);
  // Calls body(matrix, its P^T in first_, its Q^T in second_ and own_), the last two as offsets.
  template <typename Body>
  void ForEachMatrix(const FactorPiece& piece, const Place& place, const Body& body) const {
    int64_t left = place.first, right = place.second;
    for (size_t i = piece.first_matrix; i < piece.last_matrix; ++i) {
      const CompressedMatrix& matrix = memory_.matrices[i];
      body(matrix, left, right);
      left += memory_.rank * matrix.size.rows;
      right += memory_.rank * matrix.size.columns;
    }
  }

  Tensor Floats(const Buffer& buffer, int64_t begin, const Shape& shape) const {
    return {buffer.data() + static_cast<size_t>(begin) * sizeof(float), shape, DType::kFloat32,
            flat_.device()};
  }
  static float* At(const Buffer& buffer, int64_t element) {
    return reinterpret_cast<float*>(buffer.data()) + element;
  }
  Tensor MatrixOf(const CompressedMatrix& matrix) const {
    return {flat_.data<float>() + matrix.begin,
            {matrix.size.rows, matrix.size.columns},
            DType::kFloat32,
            flat_.device()};
  }
  Tensor broken() const { return {broken_.data(), {2}, DType::kFloat64, flat_.device()}; }
  const double* broken_count() const { return broken().data<double>() + 1; }

  Tensor flat_;
  Stream compute_;
  DType wire_type_;
  int rank_, ranks_;
  PowerSgdOptions options_;
  GradientUnit unit_;
  PowerSgdMemory memory_;  // its errors and factors are copies, made for a checkpoint
  FactorLayout layout_;
  std::vector<Place> places_;  // of the layout's pieces
  int64_t step_ = 0;
  bool compresses_ = false;
  Buffer errors_, next_errors_;            // of the step before, and of this one
  Buffer factors_;                         // Q^T of each matrix, of rows of length 1
  Buffer first_, second_;                  // P^T and the rest, Q^T: float32
  Buffer own_;                             // Q^T of this rank
  Buffer wire_;                            // none in float32
  Buffer broken_;                          // {sum of squares, NaNs and infinities} of a step's sums
  std::unique_ptr<BucketExchange> plain_;  // until compression begins
  // Goes first: it waits for what works on the memory.
  std::shared_ptr<DeviceCommunicator> gpus_;
};

void DevicePowerSgd::SetStep(int64_t step) {
  DT_CHECK_GE(step, step_);
  step_ = step;
  if (compresses_ || step_ < options_.start_step || memory_.matrices.empty()) return;
  plain_.reset();
  Allocate();
  compresses_ = true;
  PutMemory();
}

void DevicePowerSgd::Allocate() {
  Place end;
  int64_t widest = 0;
  for (const FactorPiece& piece : layout_.pieces()) {
    places_.push_back(end);
    end.first += piece.first_elements();
    end.second += piece.right_elements;
    widest = std::max({widest, piece.first_elements(), piece.right_elements});
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
  if (wire_type_ != DType::kFloat32) {
    wire_ = Buffer(flat_.device(), static_cast<size_t>(widest) * SizeOf(wire_type_));
  }
  broken_ = Buffer(flat_.device(), 2 * sizeof(double));
  memory_.errors.assign(static_cast<size_t>(size.errors), 0.0f);
  memory_.factors.assign(static_cast<size_t>(size.factors), 0.0f);
}

PowerSgdMemory* DevicePowerSgd::memory() {
  if (!compresses_) return nullptr;
  CopyToHost(memory_.errors.data(), errors_.data(), errors_.bytes(), gpus_->stream());
  CopyToHost(memory_.factors.data(), factors_.data(), factors_.bytes(), gpus_->stream());
  return &memory_;
}

// A factor without length is drawn, as MatrixCompressor::Project() does.
void DevicePowerSgd::PutMemory() {
  for (size_t i = 0; i < memory_.matrices.size(); ++i) {
    const CompressedMatrix& matrix = memory_.matrices[i];
    NormaliseRows(memory_.factors.data() + matrix.factor_begin, memory_.rank, matrix.size.columns,
                  {.seed = options_.seed,
                   .step = static_cast<uint32_t>(step_),
                   .site = static_cast<uint32_t>(i) * static_cast<uint32_t>(memory_.rank)});
  }
  CopyToDevice(errors_.data(), memory_.errors.data(), errors_.bytes(), gpus_->stream());
  CopyToDevice(factors_.data(), memory_.factors.data(), factors_.bytes(), gpus_->stream());
}

void DevicePowerSgd::Start(int bucket) {
  if (plain_) return plain_->Start(bucket);
  Stream& stream = gpus_->stream();
  RunBehind(stream, compute_);
  if (bucket == 0) {
    Tensor counts = broken();
    Zero(counts, stream);
  }
  for (size_t i = layout_.begin_of(bucket); i < layout_.end_of(bucket); ++i) {
    Exchange(layout_.pieces()[i], places_[i]);
  }
}

void DevicePowerSgd::Exchange(const FactorPiece& piece, const Place& place) {
  if (piece.range.elements() == 0) return;
  Stream& stream = gpus_->stream();
  Tensor counts = broken();
  Project(piece, place);
  Tensor first = Floats(first_, place.first, {piece.first_elements()});
  Round(first);
  Sum(first);
  AccumulateSumOfSquares(first, counts, stream);
  if (piece.right_elements > 0) {
    ProjectBack(piece, place);
    Tensor second = Floats(second_, place.second, {piece.right_elements});
    // What rounding takes away from this rank's Q is part of its error.
    Round(second);
    CopyOnDevice(At(own_, place.second), second.raw(), second.bytes(), stream);
    Sum(second);
    AccumulateSumOfSquares(second, counts, stream);
  }
  Restore(piece, place);
}

void DevicePowerSgd::Project(const FactorPiece& piece, const Place& place) {
  Stream& stream = gpus_->stream();
  ForEachMatrix(piece, place, [&](const CompressedMatrix& matrix, int64_t left, int64_t) {
    AddErrorsOnDevice({.gradients = flat_.data<float>() + matrix.begin,
                       .errors = At(errors_, matrix.error_begin),
                       .elements = matrix.size.elements(),
                       .unit = unit_},
                      stream);
    Tensor product = Floats(first_, left, {memory_.rank, matrix.size.rows});
    Gemm(Floats(factors_, matrix.factor_begin, {memory_.rank, matrix.size.columns}),
         MatrixOf(matrix), {.transpose_b = true}, product, stream);
  });
  int64_t rest = place.first + piece.left_elements;
  for (const BucketRange& range : piece.rest) {
    CopyOnDevice(At(first_, rest), flat_.data<float>() + range.begin,
                 static_cast<size_t>(range.elements()) * sizeof(float), stream);
    rest += range.elements();
  }
}

void DevicePowerSgd::ProjectBack(const FactorPiece& piece, const Place& place) {
  Stream& stream = gpus_->stream();
  std::vector<FactorRows> rows;
  ForEachMatrix(piece, place, [&](const CompressedMatrix& matrix, int64_t left, int64_t) {
    rows.push_back({.begin = left, .length = matrix.size.rows});
  });
  OrthonormaliseOnDevice(At(first_, 0), rows, memory_.rank, stream);
  ForEachMatrix(piece, place, [&](const CompressedMatrix& matrix, int64_t left, int64_t right) {
    Tensor product = Floats(second_, right, {memory_.rank, matrix.size.columns});
    Gemm(Floats(first_, left, {memory_.rank, matrix.size.rows}), MatrixOf(matrix), {}, product,
         stream);
  });
}

void DevicePowerSgd::Restore(const FactorPiece& piece, const Place& place) {
  Stream& stream = gpus_->stream();
  ForEachMatrix(piece, place, [&](const CompressedMatrix& matrix, int64_t left, int64_t right) {
    SplitOffErrorOnDevice({.factors = {.left = At(first_, left),
                                       .own = At(own_, right),
                                       .sum = At(second_, right),
                                       .rank = memory_.rank},
                           .size = matrix.size,
                           .unit = unit_,
                           .matrix = flat_.data<float>() + matrix.begin,
                           .error = At(next_errors_, matrix.error_begin)},
                          stream);
  });
  int64_t rest = place.first + piece.left_elements;
  for (const BucketRange& range : piece.rest) {
    CopyOnDevice(flat_.data<float>() + range.begin, At(first_, rest),
                 static_cast<size_t>(range.elements()) * sizeof(float), stream);
    rest += range.elements();
  }
}

void DevicePowerSgd::Round(Tensor& values) {
  if (wire_type_ == DType::kFloat32 || values.elements() == 0) return;
  Stream& stream = gpus_->stream();
  const auto ranks = static_cast<float>(ranks_);
  Tensor wire(wire_.data(), {values.elements()}, wire_type_, flat_.device());
  // float16 has a narrow range: its values are divided before they are added.
  if (wire_type_ == DType::kFloat16) Scale(values, 1.0f / ranks, stream);
  Cast(values, wire, stream);
  Cast(wire, values, stream);
  if (wire_type_ == DType::kFloat16) Scale(values, ranks, stream);
}

void DevicePowerSgd::Sum(Tensor& values) {
  if (values.elements() == 0) return;
  if (wire_type_ == DType::kFloat32) {
    return gpus_->AllReduce(values.raw(), values.elements(), DType::kFloat32, ReduceOp::kSum);
  }
  // Round() has just left the values there, in the wire type.
  Stream& stream = gpus_->stream();
  Tensor wire(wire_.data(), {values.elements()}, wire_type_, flat_.device());
  gpus_->AllReduce(wire.raw(), wire.elements(), wire_type_, ReduceOp::kSum);
  Cast(wire, values, stream);
  if (wire_type_ == DType::kFloat16) Scale(values, static_cast<float>(ranks_), stream);
}

void DevicePowerSgd::Settle() {
  if (plain_) {
    plain_->Settle();
    return SetStep(step_ + 1);
  }
  Stream& stream = gpus_->stream();
  std::vector<KeptFactors> factors;
  std::vector<FactorRows> matrices;
  for (size_t i = 0; i < places_.size(); ++i) {
    ForEachMatrix(layout_.pieces()[i], places_[i],
                  [&](const CompressedMatrix& matrix, int64_t, int64_t right) {
                    factors.push_back(
                        {.from = right, .to = matrix.factor_begin, .length = matrix.size.columns});
                    matrices.push_back({.begin = matrix.begin, .length = matrix.size.elements()});
                  });
  }
  KeepErrorsOnDevice(broken_count(), At(next_errors_, 0), At(errors_, 0),
                     static_cast<int64_t>(errors_.bytes() / sizeof(float)), stream);
  KeepFactorsOnDevice(broken_count(), At(second_, 0), At(factors_, 0), factors, memory_.rank,
                      stream);
  SpoilOnDevice(broken_count(), flat_.data<float>(), matrices, stream);
  // The host waits for the sums, with the communicator's time-out: what a rank is missing from must
  // not get into the weights.
  gpus_->Wait();
  RunBehind(compute_, stream);
  SetStep(step_ + 1);
}

int64_t DevicePowerSgd::BytesOf(int bucket) const {
  if (plain_) return plain_->BytesOf(bucket);
  return static_cast<int64_t>(SizeOf(wire_type_)) * layout_.TravellingElements(bucket);
}

}  // namespace

std::unique_ptr<CompressedExchange> MakeDevicePowerSgd(const Tensor& flat,
                                                       const std::vector<BucketRange>& buckets,
                                                       const std::vector<GradientRange>& parameters,
                                                       const Communicator& comm,
                                                       std::shared_ptr<DeviceCommunicator> gpus,
                                                       const GradientReducerOptions& options) {
  return std::make_unique<DevicePowerSgd>(flat, buckets, parameters, comm, std::move(gpus),
                                          options);
}

}  // namespace dtrain::internal
