// device_power_sgd.cc - both exchanges of a bucket, one after the other in a stream.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/device_power_sgd.h"

#include <cstddef>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/stream_order.h"
#include "dtrain/distributed/internal/device_exchange.h"
#include "dtrain/distributed/internal/device_factors.h"
#include "dtrain/ops/cast.h"

namespace dtrain::internal {
namespace {

class DevicePowerSgd final : public CompressedExchange {
 public:
  DevicePowerSgd(const Tensor& flat, const std::vector<BucketRange>& buckets,
                 const std::vector<GradientRange>& parameters, const Communicator& comm,
                 std::shared_ptr<DeviceCommunicator> gpus, const GradientReducerOptions& options)
      : compute_(*options.stream),
        wire_type_(options.wire_type),
        ranks_(comm.size()),
        start_step_(options.power_sgd.start_step),
        factors_(flat, buckets, parameters, options.power_sgd, comm.size(), gpus->stream()),
        plain_(MakeDeviceExchange(flat, buckets, gpus,
                                  {.rank = comm.rank(),
                                   .size = comm.size(),
                                   .compute = compute_,
                                   .wire_type = wire_type_})),
        device_(flat.device()),
        gpus_(std::move(gpus)) {
    WarnIfNothingShrinks(factors_.matrices(), comm);
    SetStep(0);
  }

  void SetGradientScale(const Tensor& scale) override {
    factors_.unit().scale = scale.data<float>();
  }
  void SetGradientTokens(double tokens) override { factors_.unit().tokens = tokens; }
  void SetStep(int64_t step) override;
  PowerSgdMemory* memory() override { return plain_ ? nullptr : factors_.Fetch(); }
  void PutMemory() override {
    if (!plain_) factors_.Put(step_);
  }

  void Start(int bucket) override;
  void Poll() override { gpus_->Poll(); }
  void Land(int /*bucket*/) override {}
  void Settle() override;
  int64_t BytesOf(int bucket) const override;

 private:
  // Rounds the values to the wire type: what is left of them is what the others see.
  void Round(Tensor values);
  // The values, which are rounded, become their sum over all ranks.
  void Sum(Tensor values);

  Stream compute_;
  DType wire_type_;
  int ranks_;
  int64_t start_step_;
  int64_t step_ = 0;
  DeviceFactors factors_;
  std::unique_ptr<BucketExchange> plain_;  // until compression begins
  Device device_;
  Buffer wire_;  // none in float32
  // Goes first: it waits for what works on the memory.
  std::shared_ptr<DeviceCommunicator> gpus_;
};

void DevicePowerSgd::SetStep(int64_t step) {
  DT_CHECK_GE(step, step_);
  step_ = step;
  if (!plain_ || step_ < start_step_ || factors_.matrices().matrices.empty()) return;
  plain_.reset();
  factors_.Allocate(step);
  if (wire_type_ == DType::kFloat32) return;
  wire_ = Buffer(device_, static_cast<size_t>(factors_.widest()) * SizeOf(wire_type_));
}

void DevicePowerSgd::Start(int bucket) {
  if (plain_) return plain_->Start(bucket);
  RunBehind(gpus_->stream(), compute_);
  if (bucket == 0) factors_.Begin();
  const FactorLayout& layout = factors_.layout();
  for (size_t i = layout.begin_of(bucket); i < layout.end_of(bucket); ++i) {
    if (layout.pieces()[i].range.elements() == 0) continue;
    factors_.Project(i);
    Round(factors_.First(i));
    Sum(factors_.First(i));
    factors_.ProjectBack(i);
    // What rounding takes away from this rank's Q is part of its error.
    Round(factors_.Second(i));
    factors_.KeepOwn(i);
    Sum(factors_.Second(i));
    factors_.Restore(i);
  }
}

void DevicePowerSgd::Round(Tensor values) {
  if (wire_type_ == DType::kFloat32 || values.elements() == 0) return;
  Stream& stream = gpus_->stream();
  const auto ranks = static_cast<float>(ranks_);
  Tensor wire(wire_.data(), {values.elements()}, wire_type_, device_);
  // float16 has a narrow range: its values are divided before they are added.
  if (wire_type_ == DType::kFloat16) Scale(values, 1.0f / ranks, stream);
  Cast(values, wire, stream);
  Cast(wire, values, stream);
  if (wire_type_ == DType::kFloat16) Scale(values, ranks, stream);
}

void DevicePowerSgd::Sum(Tensor values) {
  if (values.elements() == 0) return;
  if (wire_type_ == DType::kFloat32) {
    return gpus_->AllReduce(values.raw(), values.elements(), DType::kFloat32, ReduceOp::kSum);
  }
  // Round() has just left the values there, in the wire type.
  Stream& stream = gpus_->stream();
  Tensor wire(wire_.data(), {values.elements()}, wire_type_, device_);
  gpus_->AllReduce(wire.raw(), wire.elements(), wire_type_, ReduceOp::kSum);
  Cast(wire, values, stream);
  if (wire_type_ == DType::kFloat16) Scale(values, static_cast<float>(ranks_), stream);
}

void DevicePowerSgd::Settle() {
  if (plain_) {
    plain_->Settle();
    return SetStep(step_ + 1);
  }
  factors_.End();
  // The host waits for the sums, with the communicator's time-out: what a rank is missing from must
  // not get into the weights.
  gpus_->Wait();
  RunBehind(compute_, gpus_->stream());
  SetStep(step_ + 1);
}

int64_t DevicePowerSgd::BytesOf(int bucket) const {
  if (plain_) return plain_->BytesOf(bucket);
  return static_cast<int64_t>(SizeOf(wire_type_)) * factors_.layout().TravellingElements(bucket);
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
