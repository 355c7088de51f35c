// plain_exchange.cc - rounds a bucket for the wire, sums it over ranks, widens the sums.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/internal/plain_exchange.h"

#include <cstddef>
#include <utility>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/stream.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kGrain = 1 << 16;  // elements worth waking a thread for

template <typename Wire>
void RoundTo(const float* from, std::byte* staging, int64_t count, float factor) {
  Wire* const to = reinterpret_cast<Wire*>(staging);
  ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = Wire(from[i] * factor);
  });
}

template <typename Wire>
void WidenFrom(const std::byte* staging, int64_t begin_at, float* to, int64_t count, float factor) {
  const Wire* const from = reinterpret_cast<const Wire*>(staging) + begin_at;
  ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i]) * factor;
  });
}

class PlainExchange final : public BucketExchange {
 public:
  PlainExchange(const Tensor& flat, std::vector<BucketRange> buckets, Communicator& comm,
                DType wire_type, std::vector<std::vector<int64_t>> slices)
      : flat_(flat),
        stream_(flat.device()),
        gradients_(HostMemory()),
        buckets_(std::move(buckets)),
        comm_(comm),
        wire_type_(wire_type),
        slices_(std::move(slices)),
        wire_(buckets_.size()),
        handles_(buckets_.size()) {
    if (wire_type_ == DType::kFloat32) return;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      wire_[i].resize(static_cast<size_t>(BytesOf(static_cast<int>(i))));
    }
  }

  void Start(int bucket) override {
    const BucketRange& range = buckets_[static_cast<size_t>(bucket)];
    const int64_t count = range.elements();
    if (count == 0) return;
    float* const from = gradients_ + range.begin;
    if (staging_) {
      SynchronizeDevice(flat_.device());
      CopyToHost(from, flat_.data<float>() + range.begin,
                 static_cast<size_t>(count) * sizeof(float), stream_);
    }
    void* data = from;
    if (wire_type_ != DType::kFloat32) {
      std::byte* const wire = wire_[static_cast<size_t>(bucket)].data();
      if (wire_type_ == DType::kBFloat16) {
        RoundTo<BFloat16>(from, wire, count, 1.0f);
      } else {
        RoundTo<Float16>(from, wire, count, 1.0f / static_cast<float>(comm_.size()));
      }
      data = wire;
    }
    std::unique_ptr<Handle>& handle = handles_[static_cast<size_t>(bucket)];
    if (slices_.empty()) {
      handle = comm_.StartAllReduce(data, count, wire_type_, ReduceOp::kSum);
    } else {
      std::vector<int64_t> offsets = slices_[static_cast<size_t>(bucket)];
      for (int64_t& offset : offsets) offset -= range.begin;
      handle = comm_.StartReduceScatter(data, offsets, wire_type_, ReduceOp::kSum);
    }
  }

  void Poll() override { comm_.Poll(); }

  bool HasArrived(int bucket) override {
    const std::unique_ptr<Handle>& handle = handles_[static_cast<size_t>(bucket)];
    return !handle || handle->Test();
  }

  void Land(int bucket) override {
    std::unique_ptr<Handle>& handle = handles_[static_cast<size_t>(bucket)];
    if (!handle) return;  // an empty bucket
    handle->Wait();
    handle.reset();
    const BucketRange range = Landing(bucket);
    const int64_t count = range.elements();
    float* const to = gradients_ + range.begin;
    const int64_t skipped = range.begin - buckets_[static_cast<size_t>(bucket)].begin;
    const std::vector<std::byte>& wire = wire_[static_cast<size_t>(bucket)];
    if (wire_type_ == DType::kBFloat16) {
      WidenFrom<BFloat16>(wire.data(), skipped, to, count, 1.0f);
    } else if (wire_type_ == DType::kFloat16) {
      WidenFrom<Float16>(wire.data(), skipped, to, count, static_cast<float>(comm_.size()));
    }
    if (staging_) {
      CopyToDevice(flat_.data<float>() + range.begin, to,
                   static_cast<size_t>(count) * sizeof(float), stream_);
    }
  }

  void Settle() override { stream_.Synchronize(); }

  int64_t BytesOf(int bucket) const override {
    return buckets_[static_cast<size_t>(bucket)].elements() *
           static_cast<int64_t>(SizeOf(wire_type_));
  }

 private:
  // The elements whose sums this rank receives.
  BucketRange Landing(int bucket) const {
    if (slices_.empty()) return buckets_[static_cast<size_t>(bucket)];
    const std::vector<int64_t>& offsets = slices_[static_cast<size_t>(bucket)];
    const auto rank = static_cast<size_t>(comm_.rank());
    return {offsets[rank], offsets[rank + 1]};
  }

  // The flat gradients where they lie on the host, else pinned memory for them.
  float* HostMemory() {
    if (flat_.device().type == DeviceType::kCpu) return flat_.data<float>();
    staging_arena_ = Arena::Create(flat_.device(), "gradients on the host", size_t{1} << 40,
                                   ArenaMemory::kPinned);
    staging_ = Empty(*staging_arena_, flat_.shape(), DType::kFloat32);
    return staging_.data<float>();
  }

  Tensor flat_;
  Stream stream_;
  std::shared_ptr<Arena> staging_arena_;
  Tensor staging_;  // absent on the CPU
  float* gradients_;
  std::vector<BucketRange> buckets_;
  Communicator& comm_;
  DType wire_type_;
  std::vector<std::vector<int64_t>> slices_;  // by bucket; empty: every rank receives all
  std::vector<std::vector<std::byte>> wire_;  // by bucket; empty in float32
  std::vector<std::unique_ptr<Handle>> handles_;
};

}  // namespace

std::unique_ptr<BucketExchange> MakePlainExchange(const Tensor& flat,
                                                  std::vector<BucketRange> buckets,
                                                  Communicator& comm, DType wire_type,
                                                  std::vector<std::vector<int64_t>> slices) {
  return std::make_unique<PlainExchange>(flat, std::move(buckets), comm, wire_type,
                                         std::move(slices));
}

}  // namespace dtrain::internal
