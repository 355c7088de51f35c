// gradient_reducer.cc - buckets as views of the flat gradients, started in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/gradient_reducer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/device_communicator.h"
#include "dtrain/distributed/internal/background_exchange.h"
#include "dtrain/distributed/internal/device_exchange.h"
#include "dtrain/distributed/internal/plain_exchange.h"
#include "dtrain/distributed/internal/power_sgd_exchange.h"

namespace dtrain {
namespace {

const Tensor& GradientsOf(ParameterSet& parameters) {
  parameters.CheckAllocated();
  return parameters.gradients();
}

// Padding between two parameters is zero on all ranks and travels with the first.
std::vector<GradientRange> RangesOf(const ParameterSet& parameters) {
  std::vector<GradientRange> ranges;
  for (const Parameter* parameter : parameters.in_backward_order()) {
    if (!ranges.empty()) ranges.back().end = parameter->offset();
    GradientRange range{parameter->name(), parameter->offset(), parameters.size()};
    if (parameter->shape().rank() == 2 && !parameter->is_embedding()) {
      range.rows = parameter->shape()[0];
      range.columns = parameter->shape()[1];
    }
    ranges.push_back(std::move(range));
  }
  return ranges;
}

// Between hosts something moves only while it is polled often.
std::unique_ptr<internal::BucketExchange> KeepMoving(
    std::unique_ptr<internal::BucketExchange> exchange, const Communicator& comm) {
  const bool spans_hosts = comm.local_size() < comm.size();
  return spans_hosts ? internal::MoveInBackground(std::move(exchange)) : std::move(exchange);
}

// Collective.
std::unique_ptr<internal::BucketExchange> MakeExchange(const Tensor& flat,
                                                       std::vector<internal::BucketRange> buckets,
                                                       Communicator& comm,
                                                       const GradientReducerOptions& options,
                                                       std::vector<std::vector<int64_t>> slices) {
  if (flat.device().type == DeviceType::kCuda && options.stream && slices.empty()) {
    std::string why;
    auto gpus = MakeDeviceCommunicator(comm, flat.device(), &why);
    if (gpus) {
      LogInfo("gradients travel from GPU to GPU: " + gpus->description());
      return internal::MakeDeviceExchange(flat, std::move(buckets), std::move(gpus), comm.size(),
                                          *options.stream, options.wire_type);
    }
    Log(comm.is_root() ? LogLevel::kWarning : LogLevel::kInfo,
        "gradients travel through the host's memory, without NCCL: " + why);
  }
  return KeepMoving(
      internal::MakePlainExchange(std::make_shared<internal::HostGradients>(flat, options.stream),
                                  std::move(buckets), comm, options.wire_type, std::move(slices)),
      comm);
}

}  // namespace

std::vector<int> BucketsOf(std::span<const GradientRange> parameters,
                           const GradientReducerOptions& options) {
  std::vector<int> buckets;
  int64_t limit = options.first_bucket_bytes / static_cast<int64_t>(sizeof(float));
  int64_t begin = 0;  // of the bucket that grows
  for (const GradientRange& range : parameters) {
    const bool full = !buckets.empty() && range.begin > begin && range.end - begin > limit;
    if (full) limit = options.bucket_bytes / static_cast<int64_t>(sizeof(float));
    if (buckets.empty() || full) begin = range.begin;
    buckets.push_back(buckets.empty() ? 0 : buckets.back() + (full ? 1 : 0));
  }
  return buckets;
}

GradientReducer::GradientReducer(ParameterSet& parameters, Communicator& comm,
                                 const GradientReducerOptions& options)
    : GradientReducer(GradientsOf(parameters), RangesOf(parameters), comm, options) {
  set_ = &parameters;
}

GradientReducer::GradientReducer(const Tensor& flat_gradients,
                                 std::vector<GradientRange> parameters, Communicator& comm,
                                 const GradientReducerOptions& options)
    : elements_(flat_gradients.elements()),
      scatter_block_(options.scatter_block),
      parameters_(std::move(parameters)),
      comm_(comm),
      marked_(parameters_.size(), false) {
  DT_CHECK(flat_gradients.is_contiguous());
  const DType wire = options.wire_type;
  DT_CHECK(wire == DType::kFloat32 || wire == DType::kBFloat16 || wire == DType::kFloat16)
      << "gradients travel as float32, bfloat16 or float16, not as " << Name(wire);
  DT_CHECK_GE(options.scatter_block, 0);
  DT_CHECK_GE(options.power_sgd.rank, 0);
  DT_CHECK(options.power_sgd.rank == 0 || scatter_block_ == 0)
      << "PowerSGD's sums are whole on every rank";
  int64_t end = 0;
  for (const GradientRange& range : parameters_) {
    DT_CHECK_EQ(range.begin, end) << range.name << " does not begin where the one before ends";
    DT_CHECK_LE(range.begin, range.end) << range.name;
    end = range.end;
  }
  DT_CHECK_EQ(end, elements_) << "the parameters do not cover the flat gradients";
  CutBuckets(options);
  if (comm.size() == 1) return;
  std::vector<internal::BucketRange> ranges;
  std::vector<std::vector<int64_t>> slices;
  for (const Bucket& bucket : buckets_) {
    if (scatter_block_ > 0) slices.push_back(SliceOffsets(static_cast<int>(ranges.size())));
    ranges.push_back({bucket.begin, bucket.end});
  }
  if (options.power_sgd.rank > 0) {
    auto exchange = std::make_unique<internal::PowerSgdExchange>(flat_gradients, ranges,
                                                                 parameters_, comm, options);
    power_sgd_ = exchange.get();
    exchange_ = KeepMoving(std::move(exchange), comm);
  } else {
    exchange_ = MakeExchange(flat_gradients, std::move(ranges), comm, options, std::move(slices));
  }
}

void GradientReducer::CutBuckets(const GradientReducerOptions& options) {
  bucket_of_ = BucketsOf(parameters_, options);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (bucket_of_[i] == num_buckets()) {
      buckets_.emplace_back();
      buckets_.back().begin = parameters_[i].begin;
    }
    Bucket& bucket = buckets_.back();
    bucket.end = parameters_[i].end;
    ++bucket.parameters;
    ++bucket.missing;
  }
  if (scatter_block_ == 0) return;
  // What follows the last whole block travels with the next bucket, which starts after this one.
  for (size_t i = 0; i + 1 < buckets_.size(); ++i) {
    buckets_[i].end = buckets_[i].end / scatter_block_ * scatter_block_;
    buckets_[i + 1].begin = buckets_[i].end;
  }
}

std::vector<int64_t> GradientReducer::SliceOffsets(int bucket) const {
  DT_CHECK_GT(scatter_block_, 0);
  const int64_t begin = bucket_begin(bucket);
  const int64_t count = bucket_begin(bucket + 1) - begin;
  const int64_t blocks = (count + scatter_block_ - 1) / scatter_block_;
  std::vector<int64_t> offsets;
  for (int64_t r = 0; r <= comm_.size(); ++r) {
    offsets.push_back(begin + std::min(count, blocks * r / comm_.size() * scatter_block_));
  }
  return offsets;
}

GradientReducer::~GradientReducer() { StopListening(); }

void GradientReducer::Listen() {
  DT_CHECK(set_ != nullptr) << "a reducer of a flat tensor hears of no parameter: MarkReady()";
  listens_ = true;
  set_->SetReadyListener([this](const Parameter& parameter) {
    MarkReady(parameter.index());
    Poll();
  });
}

void GradientReducer::StopListening() {
  if (std::exchange(listens_, false)) set_->SetReadyListener(nullptr);
}

int64_t GradientReducer::bucket_begin(int bucket) const {
  return bucket == num_buckets() ? elements_ : buckets_[static_cast<size_t>(bucket)].begin;
}

void GradientReducer::SetGradientScale(const Tensor& scale) {
  if (power_sgd_ != nullptr) power_sgd_->SetGradientScale(scale);
}

void GradientReducer::SetGradientTokens(double tokens) {
  DT_CHECK_GT(tokens, 0.0);
  if (power_sgd_ != nullptr) power_sgd_->SetGradientTokens(tokens);
}

void GradientReducer::SetStep(int64_t step) {
  if (power_sgd_ != nullptr) power_sgd_->SetStep(step);
}

internal::PowerSgdMemory* GradientReducer::power_sgd_memory() {
  return power_sgd_ != nullptr ? power_sgd_->memory() : nullptr;
}

void GradientReducer::MarkReady(int index) {
  DT_CHECK(index >= 0 && index < static_cast<int>(parameters_.size()))
      << "parameter " << index << " of " << parameters_.size();
  const auto i = static_cast<size_t>(index);
  DT_CHECK(!marked_[i]) << "the gradient of " << parameters_[i].name
                        << " was marked ready twice in one step";
  marked_[i] = true;
  Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[i])];
  if (--bucket.missing == 0) StartComplete();
}

void GradientReducer::StartComplete() {
  if (!exchange_) return;
  const Timer timer;
  while (next_ < num_buckets() && buckets_[static_cast<size_t>(next_)].missing == 0) {
    exchange_->Prepare(next_);
    NoteStart(next_);
    exchange_->Start(next_);
    statistics_.bytes += exchange_->BytesOf(next_++);
  }
  NoteArrivals();
  statistics_.launch_seconds += timer.Seconds();
}

void GradientReducer::Poll() {
  if (!exchange_) return;
  const Timer timer;
  exchange_->Poll();
  NoteArrivals();
  statistics_.launch_seconds += timer.Seconds();
}

void GradientReducer::ReduceScalars(std::span<double> values) {
  if (exchange_) exchange_->Pause();
  comm_.AllReduce(values, ReduceOp::kSum);
}

void GradientReducer::Finish() {
  CheckAllMarked();
  const Timer timer;
  for (int i = 0; exchange_ && i < num_buckets(); ++i) {
    exchange_->Land(i);
    NoteLanding(i);
  }
  if (exchange_) exchange_->Settle();
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
  std::fill(marked_.begin(), marked_.end(), false);
  next_ = 0;
  ++statistics_.steps;
  statistics_.exposed_seconds += timer.Seconds();
}

void GradientReducer::NoteStart(int bucket) {
  if (!IsTraced()) return;
  buckets_[static_cast<size_t>(bucket)].span = {
      .lane = kCommunicationLane, .begin = Timeline::Now(), .bytes = exchange_->BytesOf(bucket)};
}

void GradientReducer::NoteArrivals() {
  if (!IsTraced()) return;
  for (int i = 0; i < next_; ++i) {
    TimelineSpan& span = buckets_[static_cast<size_t>(i)].span;
    if (span.end == 0 && exchange_->HasArrived(i)) span.end = Timeline::Now();
  }
}

void GradientReducer::NoteLanding(int bucket) {
  if (!IsTraced()) return;
  TimelineSpan& span = buckets_[static_cast<size_t>(bucket)].span;
  if (span.end == 0) span.end = Timeline::Now();
  timeline_->Add(absl::StrCat("bucket ", bucket), span);
}

void GradientReducer::CheckAllMarked() const {
  constexpr int kNamed = 5;
  std::string names;
  int64_t missing = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (marked_[i]) continue;
    if (++missing <= kNamed) names += (names.empty() ? "" : ", ") + parameters_[i].name;
  }
  if (missing > kNamed) names += ", ...";
  DT_CHECK_EQ(missing, 0) << "gradients that were not marked ready: " << names;
}

}  // namespace dtrain
