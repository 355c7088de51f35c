// device_exchange.cc - rounding, sum and widening of each bucket on the communicator's stream.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/device_exchange.h"

#include <algorithm>
#include <utility>

#include "dtrain/device/buffer.h"
#include "dtrain/device/stream_order.h"
#include "dtrain/ops/cast.h"

namespace dtrain::internal {
namespace {

class DeviceExchange final : public BucketExchange {
 public:
  DeviceExchange(const Tensor& flat, std::vector<BucketRange> buckets,
                 std::unique_ptr<DeviceCommunicator> gpus, int size, const Stream& compute,
                 DType wire_type)
      : flat_(flat),
        buckets_(std::move(buckets)),
        size_(static_cast<float>(size)),
        compute_(compute),
        wire_type_(wire_type),
        gpus_(std::move(gpus)) {
    if (wire_type_ == DType::kFloat32) return;
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
    RunBehind(stream, compute_);
    Tensor sums(flat_.data<float>() + range.begin, {range.elements()}, DType::kFloat32,
                flat_.device());
    if (wire_type_ == DType::kFloat32) {
      return gpus_->AllReduce(sums.raw(), range.elements(), DType::kFloat32, ReduceOp::kSum);
    }
    // The stream is done with one bucket before it comes to the next: one buffer serves all.
    Tensor wire(wire_.data(), {range.elements()}, wire_type_, flat_.device());
    const bool is_divided = wire_type_ == DType::kFloat16;
    if (is_divided) Scale(sums, 1.0f / size_, stream);
    Cast(sums, wire, stream);
    gpus_->AllReduce(wire.raw(), range.elements(), wire_type_, ReduceOp::kSum);
    Cast(wire, sums, stream);
    if (is_divided) Scale(sums, size_, stream);
  }

  void Poll() override { gpus_->Poll(); }
  void Land(int /*bucket*/) override {}
  // The host waits for the sums, with the communicator's time-out: what a rank is missing from must
  // not get into the weights. The last widening may still run.
  void Settle() override {
    gpus_->Wait();
    RunBehind(compute_, gpus_->stream());
  }

  int64_t BytesOf(int bucket) const override {
    return buckets_[static_cast<size_t>(bucket)].elements() *
           static_cast<int64_t>(SizeOf(wire_type_));
  }

 private:
  Tensor flat_;
  std::vector<BucketRange> buckets_;
  float size_;
  Stream compute_;
  DType wire_type_;
  Buffer wire_;  // none in float32
  // Goes first: it waits for what works on the memory.
  std::unique_ptr<DeviceCommunicator> gpus_;
};

}  // namespace

std::unique_ptr<BucketExchange> MakeDeviceExchange(const Tensor& flat,
                                                   std::vector<BucketRange> buckets,
                                                   std::unique_ptr<DeviceCommunicator> gpus,
                                                   int size, const Stream& compute,
                                                   DType wire_type) {
  return std::make_unique<DeviceExchange>(flat, std::move(buckets), std::move(gpus), size, compute,
                                          wire_type);
}

}  // namespace dtrain::internal
