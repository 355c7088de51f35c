// device_exchange.cc - rounding, sum and widening of each bucket on the communicator's stream.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/device_exchange.h"

#include <algorithm>
#include <span>
#include <utility>

#include "dtrain/device/buffer.h"
#include "dtrain/device/stream_order.h"
#include "dtrain/distributed/internal/device_slices.h"
#include "dtrain/ops/cast.h"

namespace dtrain::internal {
namespace {

class DeviceExchange final : public BucketExchange {
 public:
  DeviceExchange(const Tensor& flat, std::vector<BucketRange> buckets,
                 std::shared_ptr<DeviceCommunicator> gpus, DeviceExchangeOptions options)
      : flat_(flat),
        buckets_(std::move(buckets)),
        options_(std::move(options)),
        gpus_(std::move(gpus)) {
    if (options_.wire_type == DType::kFloat32) return;
    int64_t largest = 0;
    for (int i = 0; i < static_cast<int>(buckets_.size()); ++i) {
      largest = std::max(largest, BytesOf(i));
    }
    wire_ = Buffer(flat.device(), static_cast<size_t>(largest));
  }

  void Start(int bucket) override {
    const BucketRange& range = buckets_[static_cast<size_t>(bucket)];
    if (range.elements() == 0) return;
    Stream& stream = gpus_->stream();
    RunBehind(stream, options_.compute);
    Tensor values = flat_.Rows(range.begin, range.end);
    if (options_.wire_type == DType::kFloat32) return Sum(bucket, values);
    // The stream is done with one bucket before it comes to the next: one buffer serves all.
    Tensor wire(wire_.data(), {range.elements()}, options_.wire_type, flat_.device());
    const bool is_divided = options_.wire_type == DType::kFloat16;
    const auto size = static_cast<float>(options_.size);
    if (is_divided) Scale(values, 1.0f / size, stream);
    Cast(values, wire, stream);
    Sum(bucket, wire);
    const BucketRange landing = Landing(bucket);
    if (landing.elements() == 0) return;
    Tensor sums = flat_.Rows(landing.begin, landing.end);
    Cast(wire.Rows(landing.begin - range.begin, landing.end - range.begin), sums, stream);
    if (is_divided) Scale(sums, size, stream);
  }

  void Poll() override { gpus_->Poll(); }
  void Land(int /*bucket*/) override {}
  // The host waits for the sums, with the communicator's time-out: what a rank is missing from must
  // not get into the weights. The last widening may still run.
  void Settle() override {
    gpus_->Wait();
    RunBehind(options_.compute, gpus_->stream());
  }

  int64_t BytesOf(int bucket) const override {
    return buckets_[static_cast<size_t>(bucket)].elements() *
           static_cast<int64_t>(SizeOf(options_.wire_type));
  }

 private:
  // values: [elements of the bucket], in the wire type.
  void Sum(int bucket, const Tensor& values) {
    if (options_.slices.empty()) {
      return gpus_->AllReduce(values.raw(), values.elements(), values.dtype(), ReduceOp::kSum);
    }
    gpus_->Group([&] { ScatterSums(values, OffsetsOf(bucket), *gpus_); });
  }

  std::span<const int64_t> OffsetsOf(int bucket) const {
    return options_.slices[static_cast<size_t>(bucket)];
  }
  // The elements whose sums this rank receives.
  BucketRange Landing(int bucket) const {
    if (options_.slices.empty()) return buckets_[static_cast<size_t>(bucket)];
    const auto rank = static_cast<size_t>(options_.rank);
    return {OffsetsOf(bucket)[rank], OffsetsOf(bucket)[rank + 1]};
  }

  Tensor flat_;
  std::vector<BucketRange> buckets_;
  DeviceExchangeOptions options_;
  Buffer wire_;  // none in float32
  // Goes first: it waits for what works on the memory.
  std::shared_ptr<DeviceCommunicator> gpus_;
};

}  // namespace

std::unique_ptr<BucketExchange> MakeDeviceExchange(const Tensor& flat,
                                                   std::vector<BucketRange> buckets,
                                                   std::shared_ptr<DeviceCommunicator> gpus,
                                                   DeviceExchangeOptions options) {
  return std::make_unique<DeviceExchange>(flat, std::move(buckets), std::move(gpus),
                                          std::move(options));
}

}  // namespace dtrain::internal
