// power_sgd_exchange.cc - two allreduces per bucket, driven by Poll() while backward goes on.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/power_sgd_exchange.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/wait_mark.h"
#include "dtrain/device/copy.h"
#include "dtrain/distributed/internal/plain_exchange.h"
#include "dtrain/distributed/internal/wire_format.h"
#include "dtrain/ops/gemm.h"

namespace dtrain::internal {
namespace {

// Without anything sent: when a rank counts as waiting, and when a handle's own Wait(), which moves
// one communicator alone, takes over with its watch over the late.
constexpr double kIdleSeconds = 0.1;
constexpr double kPatienceSeconds = 1.0;
constexpr std::chrono::microseconds kPause(20);

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// Of what may not travel at all.
bool IsOver(const std::unique_ptr<Handle>& handle) { return !handle || handle->Test(); }
void WaitFor(const std::unique_ptr<Handle>& handle) {
  if (handle) handle->Wait();
}

// Whether none of its matrices is compressed: only then may it be cut.
bool TravelsWhole(const BucketRange& range, const std::vector<GradientRange>& parameters,
                  int rank) {
  return std::ranges::none_of(parameters, [&](const GradientRange& parameter) {
    return parameter.begin >= range.begin && parameter.end <= range.end &&
           PaysAtRank({parameter.rows, parameter.columns}, rank);
  });
}

}  // namespace

PowerSgdExchange::PowerSgdExchange(const Tensor& flat, const std::vector<BucketRange>& buckets,
                                   const std::vector<GradientRange>& parameters, Communicator& comm,
                                   const GradientReducerOptions& options)
    : gradients_(std::make_shared<HostGradients>(flat, options.stream)),
      comm_(comm),
      wire_type_(options.wire_type),
      options_(options.power_sgd),
      plain_(MakePlainExchange(gradients_, buckets, comm, options.wire_type)) {
  DT_CHECK_GT(options_.rank, 0);
  DT_CHECK_GE(options_.start_step, 0);
  memory_.rank = options_.rank;
  memory_.grid = FindWorkers(comm);
  if (memory_.grid.places > 1) {
    host_comm_ = comm.NodeGroup();
    gather_comm_ = comm.NodeGroup();
    first_comm_ = comm.CrossGroup();
  }
  second_comm_ = host_comm_ ? comm.CrossGroup() : comm.Split(0);
  ShareCutter cutter(memory_.grid.places);
  for (const BucketRange& range : buckets) {
    const bool travels_whole = TravelsWhole(range, parameters, options_.rank);
    for (const BucketRange& piece : travels_whole ? PiecesOf(range) : std::vector{range}) {
      AddBucket(piece, parameters, cutter);
    }
    ends_.push_back(buckets_.size());
  }
  if (memory_.matrices.empty()) {
    Log(comm_.is_root() ? LogLevel::kWarning : LogLevel::kInfo,
        absl::StrCat("PowerSGD of rank ", options_.rank,
                     " would shrink no matrix to half: all gradients travel whole; give a lower "
                     "rank"));
  }
  SetStep(0);
}

void PowerSgdExchange::AddBucket(const BucketRange& range,
                                 const std::vector<GradientRange>& parameters,
                                 ShareCutter& cutter) {
  Bucket& bucket = buckets_.emplace_back();
  bucket.range = range;
  std::vector<const GradientRange*> matrices;
  std::vector<SharePiece> pieces;
  int64_t done = range.begin;
  for (const GradientRange& parameter : parameters) {
    const MatrixSize size{parameter.rows, parameter.columns};
    if (parameter.begin < range.begin || parameter.end > range.end ||
        !PaysAtRank(size, options_.rank)) {
      continue;
    }
    DT_CHECK_LE(size.elements(), parameter.end - parameter.begin) << parameter.name;
    pieces.push_back({done, parameter.begin});
    done = parameter.begin + size.elements();
    pieces.push_back({parameter.begin, done, /*is_matrix=*/true});
    matrices.push_back(&parameter);
  }
  pieces.push_back({done, range.end});
  const std::vector<int64_t> cuts = cutter.Cut(pieces);
  for (const int64_t cut : cuts) bucket.share_offsets.push_back(cut - range.begin);

  const auto place = static_cast<size_t>(memory_.grid.place[static_cast<size_t>(comm_.rank())]);
  const BucketRange own{cuts[place], cuts[place + 1]};
  for (const SharePiece& piece : pieces) {
    const BucketRange part{std::max(piece.begin, own.begin), std::min(piece.end, own.end)};
    if (piece.is_matrix || part.elements() <= 0) continue;
    bucket.rest.push_back(part);
    bucket.rest_elements += part.elements();
  }
  bucket.first_matrix = bucket.last_matrix = memory_.matrices.size();
  for (const GradientRange* parameter : matrices) {
    const auto after = std::ranges::upper_bound(cuts, parameter->begin);
    CompressedMatrix matrix{.name = parameter->name,
                            .begin = parameter->begin,
                            .size = {parameter->rows, parameter->columns},
                            .place = static_cast<int>(after - cuts.begin()) - 1};
    const MemorySize before = SizeAt(memory_, matrix.place);
    matrix.error_begin = before.errors;
    matrix.factor_begin = before.factors;
    memory_.matrices.push_back(std::move(matrix));
    if (parameter->begin < own.begin) bucket.first_matrix = memory_.matrices.size();
    if (parameter->begin < own.end) bucket.last_matrix = memory_.matrices.size();
  }
  for (size_t i = bucket.first_matrix; i < bucket.last_matrix; ++i) {
    bucket.left_elements += options_.rank * memory_.matrices[i].size.rows;
    bucket.right_elements += options_.rank * memory_.matrices[i].size.columns;
  }
}

void PowerSgdExchange::BeginCompression() {
  plain_.reset();
  for (Bucket& bucket : buckets_) {
    const auto first = static_cast<size_t>(bucket.left_elements + bucket.rest_elements);
    const auto second = static_cast<size_t>(bucket.right_elements);
    bucket.first.resize(first);
    bucket.own.resize(second);
    bucket.second.resize(second);
    if (wire_type_ == DType::kFloat32) continue;
    bucket.first_wire.resize(first * SizeOf(wire_type_));
    bucket.second_wire.resize(second * SizeOf(wire_type_));
  }
  const MemorySize size = SizeAt(memory_, memory_.grid.place[static_cast<size_t>(comm_.rank())]);
  memory_.errors.assign(static_cast<size_t>(size.errors), 0.0f);
  next_errors_ = memory_.errors;
  memory_.factors.assign(static_cast<size_t>(size.factors), 0.0f);
}

void PowerSgdExchange::SetStep(int64_t step) {
  DT_CHECK_GE(step, step_);
  step_ = step;
  if (plain_ && step_ >= options_.start_step && !memory_.matrices.empty()) BeginCompression();
}

Tensor PowerSgdExchange::MatrixView(const CompressedMatrix& matrix) const {
  return Tensor::View(gradients_->data() + matrix.begin, {matrix.size.rows, matrix.size.columns});
}

template <typename Body>
void PowerSgdExchange::ForEachMatrix(Bucket& bucket, const Body& body) {
  int64_t left = 0;
  int64_t right = 0;
  for (size_t i = bucket.first_matrix; i < bucket.last_matrix; ++i) {
    const CompressedMatrix& matrix = memory_.matrices[i];
    body(matrix, bucket.first.data() + left, right);
    left += memory_.rank * matrix.size.rows;
    right += memory_.rank * matrix.size.columns;
  }
}

void PowerSgdExchange::ReadUnit() {
  float scale = 1.0f;
  if (gradient_scale_) {
    CopyToHost(&scale, gradient_scale_.raw(), sizeof(scale), gradients_->stream());
  }
  unit_ = static_cast<float>(double{scale} * gradient_tokens_);
}

void PowerSgdExchange::AddErrors(const CompressedMatrix& matrix) {
  float* const to = gradients_->data() + matrix.begin;
  const float* const errors = memory_.errors.data() + matrix.error_begin;
  constexpr int64_t kGrain = 1 << 16;
  ParallelFor(matrix.size.elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) to[k] += errors[k] * unit_;
  });
}

void PowerSgdExchange::Round(const std::vector<float>& values, std::vector<std::byte>& wire) const {
  if (wire_type_ == DType::kFloat32) return;
  RoundToWire(values.data(), static_cast<int64_t>(values.size()), wire_type_, comm_.size(),
              wire.data());
}

void PowerSgdExchange::Widen(const std::vector<std::byte>& wire, std::vector<float>& values) const {
  if (wire_type_ == DType::kFloat32) return;
  WidenFromWire(wire.data(), static_cast<int64_t>(values.size()), wire_type_, comm_.size(),
                values.data());
}

std::unique_ptr<Handle> PowerSgdExchange::Send(std::vector<float>& values,
                                               std::vector<std::byte>& wire,
                                               Communicator& comm) const {
  if (values.empty()) return nullptr;
  void* const data = wire_type_ == DType::kFloat32 ? static_cast<void*>(values.data())
                                                   : static_cast<void*>(wire.data());
  return comm.StartAllReduce(data, static_cast<int64_t>(values.size()), wire_type_, ReduceOp::kSum);
}

void PowerSgdExchange::Encode(Bucket& bucket) {
  ForEachMatrix(bucket, [&](const CompressedMatrix& matrix, float* left, int64_t) {
    AddErrors(matrix);
    float* const factor = memory_.factors.data() + matrix.factor_begin;
    const auto site = static_cast<uint32_t>(&matrix - memory_.matrices.data());
    NormaliseRows(factor, memory_.rank, matrix.size.columns,
                  {.seed = options_.seed,
                   .step = static_cast<uint32_t>(step_),
                   .site = site * static_cast<uint32_t>(memory_.rank)});
    Tensor product = Tensor::View(left, {memory_.rank, matrix.size.rows});
    Gemm(Tensor::View(factor, {memory_.rank, matrix.size.columns}), MatrixView(matrix),
         {.transpose_b = true}, product, host_stream_);
  });
  float* rest = bucket.first.data() + bucket.left_elements;
  for (const BucketRange& range : bucket.rest) {
    rest = std::copy_n(gradients_->data() + range.begin, range.elements(), rest);
  }
  Round(bucket.first, bucket.first_wire);
}

void PowerSgdExchange::Prepare(int index) {
  if (plain_) return plain_->Prepare(index);
  const std::span<Bucket> pieces = PiecesAt(index);
  gradients_->Fetch({pieces.front().range.begin, pieces.back().range.end});
  if (index == 0) ReadUnit();
  if (host_comm_) return;
  for (Bucket& piece : pieces) Encode(piece);
}

void PowerSgdExchange::Start(int index) {
  if (plain_) return plain_->Start(index);
  for (Bucket& piece : PiecesAt(index)) {
    ++started_;
    if (!host_comm_) {
      StartFirst();
      continue;
    }
    piece.share_handle =
        host_comm_->StartReduceScatter(gradients_->data() + piece.range.begin, piece.share_offsets,
                                       DType::kFloat32, ReduceOp::kSum);
  }
}

void PowerSgdExchange::StartFirst() {
  Bucket& bucket = buckets_[next_first_++];
  if (host_comm_) Encode(bucket);
  bucket.first_handle = Send(bucket.first, bucket.first_wire, first_comm_ ? *first_comm_ : comm_);
}

void PowerSgdExchange::StartSecond() {
  Bucket& bucket = buckets_[next_second_++];
  Widen(bucket.first_wire, bucket.first);
  finite_ = finite_ && AllFinite(bucket.first);
  ForEachMatrix(bucket, [&](const CompressedMatrix& matrix, float* left, int64_t right) {
    OrthonormaliseRows(left, memory_.rank, matrix.size.rows);
    Tensor product = Tensor::View(bucket.own.data() + right, {memory_.rank, matrix.size.columns});
    Gemm(Tensor::View(left, {memory_.rank, matrix.size.rows}), MatrixView(matrix), {}, product,
         host_stream_);
  });
  if (bucket.right_elements == 0) return;
  // What this rank did not send is part of its error.
  Round(bucket.own, bucket.second_wire);
  Widen(bucket.second_wire, bucket.own);
  bucket.second = bucket.own;
  bucket.second_handle = Send(bucket.second, bucket.second_wire, *second_comm_);
}

void PowerSgdExchange::Finish(Bucket& bucket) {
  Widen(bucket.second_wire, bucket.second);
  finite_ = finite_ && AllFinite(bucket.second);
  WriteSums(bucket);
  StartGather(bucket);
}

void PowerSgdExchange::Advance() {
  while (next_first_ < started_ && IsOver(buckets_[next_first_].share_handle)) StartFirst();
  while (next_second_ < next_first_ && IsOver(buckets_[next_second_].first_handle)) StartSecond();
  // One at a time, because others move between calls alone; nothing waits to be sent.
  if (next_first_ == started_ && finished_ < next_second_ &&
      IsOver(buckets_[finished_].second_handle)) {
    Finish(buckets_[finished_++]);
  }
}

void PowerSgdExchange::Poll() {
  if (plain_) return plain_->Poll();
  if (host_comm_) {
    host_comm_->Poll();
    gather_comm_->Poll();
  }
  (first_comm_ ? *first_comm_ : comm_).Poll();
  second_comm_->Poll();
  Advance();
}

std::span<PowerSgdExchange::Bucket> PowerSgdExchange::PiecesAt(int index) {
  const size_t begin = index > 0 ? ends_[static_cast<size_t>(index) - 1] : 0;
  return std::span(buckets_).subspan(begin, ends_[static_cast<size_t>(index)] - begin);
}

bool PowerSgdExchange::IsDone(int index) const {
  const size_t last = ends_[static_cast<size_t>(index)] - 1;
  return last < next_second_ && IsOver(buckets_[last].second_handle);
}

bool PowerSgdExchange::HasArrived(int bucket) {
  return plain_ ? plain_->HasArrived(bucket) : IsDone(bucket);
}

void PowerSgdExchange::Land(int index) {
  if (plain_) return plain_->Land(index);
  WaitMark mark(&comm_.pulse());
  Timer idle;
  int64_t sent = BytesSent();
  while (!IsDone(index) && idle.Seconds() < kPatienceSeconds) {
    mark.Round();
    Poll();
    if (BytesSent() != sent) {
      sent = BytesSent();
      mark.Moved();
      idle.Restart();
      continue;
    }
    std::this_thread::sleep_for(kPause);
    if (idle.Seconds() > kIdleSeconds) mark.Idle();
  }
  // In the same order on all ranks, so that the first to wait is not waited for.
  const size_t last = ends_[static_cast<size_t>(index)] - 1;
  while (next_first_ <= last) {
    WaitFor(buckets_[next_first_].share_handle);
    StartFirst();
  }
  while (next_second_ <= last) {
    WaitFor(buckets_[next_second_].first_handle);
    StartSecond();
  }
  for (const Bucket& piece : PiecesAt(index)) WaitFor(piece.second_handle);
}

void PowerSgdExchange::WriteSums(Bucket& bucket) {
  const float* rest = bucket.first.data() + bucket.left_elements;
  for (const BucketRange& range : bucket.rest) {
    std::copy_n(rest, range.elements(), gradients_->data() + range.begin);
    rest += range.elements();
  }
  ForEachMatrix(bucket, [&](const CompressedMatrix& matrix, float* left, int64_t right) {
    SplitOffError({.left = left,
                   .own = bucket.own.data() + right,
                   .sum = bucket.second.data() + right,
                   .rank = memory_.rank},
                  matrix.size, 1.0f / unit_, gradients_->data() + matrix.begin,
                  next_errors_.data() + matrix.error_begin, host_stream_);
  });
}

void PowerSgdExchange::KeepMemory() {
  memory_.errors.swap(next_errors_);
  for (Bucket& bucket : buckets_) {
    ForEachMatrix(bucket, [&](const CompressedMatrix& matrix, float*, int64_t right) {
      std::copy_n(bucket.second.data() + right, memory_.rank * matrix.size.columns,
                  memory_.factors.data() + matrix.factor_begin);
    });
  }
}

void PowerSgdExchange::SpoilSums() {
  for (const CompressedMatrix& matrix : memory_.matrices) {
    std::fill_n(gradients_->data() + matrix.begin, matrix.size.elements(),
                std::numeric_limits<float>::quiet_NaN());
  }
}

void PowerSgdExchange::StartGather(Bucket& bucket) {
  if (!host_comm_) return;
  std::vector<int64_t> offsets = bucket.share_offsets;
  for (int64_t& offset : offsets) offset *= static_cast<int64_t>(sizeof(float));
  bucket.gather_handle =
      gather_comm_->StartAllGatherV(gradients_->data() + bucket.range.begin, offsets);
}

void PowerSgdExchange::Settle() {
  if (plain_) {
    plain_->Settle();
  } else {
    while (finished_ < buckets_.size()) Finish(buckets_[finished_++]);
    // Only now is it known whether the whole step is good; each place has seen its share.
    if (host_comm_) {
      finite_ = host_comm_->AllReduceValue<int32_t>(finite_ ? 1 : 0, ReduceOp::kMin) != 0;
    }
    for (const Bucket& bucket : buckets_) WaitFor(bucket.gather_handle);
    if (finite_) {
      KeepMemory();
    } else {
      SpoilSums();
    }
    for (const Bucket& bucket : buckets_) gradients_->Return(bucket.range);
    gradients_->Synchronize();
  }
  started_ = next_first_ = next_second_ = finished_ = 0;
  finite_ = true;
  SetStep(step_ + 1);
}

int64_t PowerSgdExchange::BytesOf(int index) const {
  if (plain_) return plain_->BytesOf(index);
  int64_t elements = 0;
  for (size_t i = index > 0 ? ends_[static_cast<size_t>(index) - 1] : 0;
       i < ends_[static_cast<size_t>(index)]; ++i) {
    const Bucket& piece = buckets_[i];
    elements += piece.left_elements + piece.rest_elements + piece.right_elements;
  }
  return static_cast<int64_t>(SizeOf(wire_type_)) * elements;
}

int64_t PowerSgdExchange::BytesSent() const {
  int64_t bytes = comm_.bytes_sent() + second_comm_->bytes_sent();
  if (host_comm_) {
    bytes += host_comm_->bytes_sent() + gather_comm_->bytes_sent() + first_comm_->bytes_sent();
  }
  return bytes;
}

}  // namespace dtrain::internal
