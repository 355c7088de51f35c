// gradient_reducer.cc - buckets as views of the flat gradients, started in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/gradient_reducer.h"

#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/device_communicator.h"
#include "dtrain/distributed/internal/background_exchange.h"
#include "dtrain/distributed/internal/bucket_spans.h"
#include "dtrain/distributed/internal/device_exchange.h"
#include "dtrain/distributed/internal/device_power_sgd.h"
#include "dtrain/distributed/internal/gradient_buckets.h"
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

// Between hosts messages move only if they are polled often.
std::unique_ptr<internal::BucketExchange> KeepMoving(
    std::unique_ptr<internal::BucketExchange> exchange, const Communicator& comm) {
  const bool spans_hosts = comm.topology().local_size() < comm.size();
  return spans_hosts ? internal::MoveInBackground(std::move(exchange)) : std::move(exchange);
}

// All ranks call it. Null on CPUs, and without NCCL.
std::shared_ptr<DeviceCommunicator> ConnectGpus(const Tensor& flat, Communicator& comm,
                                                const GradientReducerOptions& options) {
  if (flat.device().type == DeviceType::kCpu || !options.stream) return nullptr;
  std::string why;
  std::shared_ptr<DeviceCommunicator> gpus = MakeDeviceCommunicator(comm, flat.device(), &why);
  if (gpus) {
    LogInfo("gradients travel from GPU to GPU: " + gpus->description());
  } else {
    Log(comm.is_root() ? LogLevel::kWarning : LogLevel::kInfo,
        "gradients travel through the host's memory, without NCCL: " + why);
  }
  return gpus;
}

// gpus: null if gradients travel through the host's memory.
std::unique_ptr<internal::BucketExchange> MakeExchange(const Tensor& flat,
                                                       std::vector<internal::BucketRange> buckets,
                                                       Communicator& comm,
                                                       const GradientReducerOptions& options,
                                                       std::vector<std::vector<int64_t>> slices,
                                                       std::shared_ptr<DeviceCommunicator> gpus) {
  if (gpus) {
    return internal::MakeDeviceExchange(flat, std::move(buckets), std::move(gpus),
                                        {.rank = comm.rank(),
                                         .size = comm.size(),
                                         .compute = *options.stream,
                                         .wire_type = options.wire_type,
                                         .slices = std::move(slices)});
  }
  return KeepMoving(
      internal::MakePlainExchange(std::make_shared<internal::HostGradients>(flat, options.stream),
                                  std::move(buckets), comm, options.wire_type, std::move(slices)),
      comm);
}

internal::BucketSizes SizesOf(const GradientReducerOptions& options, int equal_slices = 0) {
  return {.bytes = options.bucket_bytes,
          .first_bytes = options.first_bucket_bytes,
          .scatter_block = options.scatter_block,
          .equal_slices = equal_slices};
}

// NCCL needs slices of the same size, whether or not it will work here.
int EqualSlices(const Tensor& flat, const Communicator& comm) {
  return flat.device().type == DeviceType::kCuda ? comm.size() : 0;
}

}  // namespace

std::vector<int> BucketsOf(std::span<const GradientRange> parameters,
                           const GradientReducerOptions& options) {
  return internal::CutBuckets(parameters, SizesOf(options));
}

GradientReducer::GradientReducer(ParameterSet& parameters, Communicator& comm,
                                 const GradientReducerOptions& options)
    : GradientReducer(GradientsOf(parameters), RangesOf(parameters), comm, options) {
  set_ = &parameters;
}

GradientReducer::GradientReducer(const Tensor& flat_gradients,
                                 std::vector<GradientRange> parameters, Communicator& comm,
                                 const GradientReducerOptions& options)
    : buckets_(std::make_unique<internal::GradientBuckets>(
          std::move(parameters), flat_gradients.elements(),
          SizesOf(options, EqualSlices(flat_gradients, comm)))),
      comm_(comm),
      spans_(std::make_unique<internal::BucketSpans>(buckets_->count())) {
  DT_CHECK(flat_gradients.is_contiguous());
  const DType wire = options.wire_type;
  DT_CHECK(wire == DType::kFloat32 || wire == DType::kBFloat16 || wire == DType::kFloat16)
      << "gradients travel as float32, bfloat16 or float16, not as " << Name(wire);
  DT_CHECK_GE(options.power_sgd.rank, 0);
  DT_CHECK(options.power_sgd.rank == 0 || options.scatter_block == 0)
      << "PowerSGD's sums are whole on every rank";
  if (comm.size() == 1) return;
  std::vector<internal::BucketRange> ranges;
  std::vector<std::vector<int64_t>> slices;
  for (int i = 0; i < num_buckets(); ++i) {
    if (options.scatter_block > 0) slices.push_back(SliceOffsets(i));
    ranges.push_back({bucket_begin(i), bucket_begin(i + 1)});
  }
  gpus_ = ConnectGpus(flat_gradients, comm, options);
  if (options.power_sgd.rank > 0 && gpus_) {
    auto exchange = internal::MakeDevicePowerSgd(flat_gradients, ranges, buckets_->parameters(),
                                                 comm, gpus_, options);
    power_sgd_ = exchange.get();
    exchange_ = std::move(exchange);
  } else if (options.power_sgd.rank > 0) {
    auto exchange = std::make_unique<internal::PowerSgdExchange>(
        flat_gradients, ranges, buckets_->parameters(), comm, options);
    power_sgd_ = exchange.get();
    exchange_ = KeepMoving(std::move(exchange), comm);
  } else {
    exchange_ =
        MakeExchange(flat_gradients, std::move(ranges), comm, options, std::move(slices), gpus_);
  }
}

GradientReducer::~GradientReducer() { StopListening(); }

int GradientReducer::num_buckets() const { return buckets_->count(); }
int64_t GradientReducer::bucket_begin(int bucket) const { return buckets_->begin_of(bucket); }
std::vector<int64_t> GradientReducer::SliceOffsets(int bucket) const {
  return buckets_->SliceOffsets(bucket, comm_.size());
}

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

internal::PowerSgdMemory* internal::PowerSgdMemoryOf(GradientReducer& reducer) {
  return reducer.power_sgd_ != nullptr ? reducer.power_sgd_->memory() : nullptr;
}

void internal::PutPowerSgdMemory(GradientReducer& reducer) {
  if (reducer.power_sgd_ != nullptr) reducer.power_sgd_->PutMemory();
}

void GradientReducer::MarkReady(int index) {
  if (buckets_->Mark(index)) StartComplete();
}

void GradientReducer::StartComplete() {
  if (!exchange_) return;
  const Timer timer;
  while (next_ < num_buckets() && buckets_->IsComplete(next_)) {
    exchange_->Prepare(next_);
    spans_->NoteStart(next_, *exchange_);
    exchange_->Start(next_);
    statistics_.bytes += exchange_->BytesOf(next_++);
  }
  spans_->NoteArrivals(next_, *exchange_);
  statistics_.launch_seconds += timer.Seconds();
}

void GradientReducer::Poll() {
  if (!exchange_) return;
  const Timer timer;
  exchange_->Poll();
  spans_->NoteArrivals(next_, *exchange_);
  statistics_.launch_seconds += timer.Seconds();
}

void GradientReducer::ReduceScalars(std::span<double> values) {
  if (exchange_) exchange_->Pause();
  comm_.AllReduce(values, ReduceOp::kSum);
}

void GradientReducer::Finish() {
  buckets_->CheckAllMarked();
  const Timer timer;
  for (int i = 0; exchange_ && i < num_buckets(); ++i) {
    exchange_->Land(i);
    spans_->NoteLanding(i);
  }
  if (exchange_) exchange_->Settle();
  buckets_->Reset();
  next_ = 0;
  ++statistics_.steps;
  statistics_.exposed_seconds += timer.Seconds();
}

void GradientReducer::set_timeline(Timeline* timeline) { spans_->set_timeline(timeline); }

}  // namespace dtrain
