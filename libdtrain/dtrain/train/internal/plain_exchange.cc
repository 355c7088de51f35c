// plain_exchange.cc - rounds a bucket for the wire, sums it over ranks, widens the sums.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/internal/plain_exchange.h"

#include <cstddef>
#include <utility>

#include "dtrain/train/internal/wire_format.h"

namespace dtrain::internal {
namespace {

class PlainExchange final : public BucketExchange {
 public:
  PlainExchange(std::shared_ptr<HostGradients> gradients, std::vector<BucketRange> buckets,
                Communicator& comm, DType wire_type)
      : gradients_(std::move(gradients)),
        buckets_(std::move(buckets)),
        comm_(comm),
        wire_type_(wire_type),
        wire_(buckets_.size()),
        handles_(buckets_.size()) {
    if (wire_type_ == DType::kFloat32) return;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      wire_[i].resize(static_cast<size_t>(BytesOf(static_cast<int>(i))));
    }
  }

  void Start(int bucket) override {
    const BucketRange& range = buckets_[static_cast<size_t>(bucket)];
    gradients_->Fetch(range);
    void* data = gradients_->data() + range.begin;
    if (wire_type_ != DType::kFloat32) {
      std::byte* const wire = wire_[static_cast<size_t>(bucket)].data();
      RoundToWire(gradients_->data() + range.begin, range.elements(), wire_type_, comm_.size(),
                  wire);
      data = wire;
    }
    handles_[static_cast<size_t>(bucket)] =
        comm_.StartAllReduce(data, range.elements(), wire_type_, ReduceOp::kSum);
  }

  void Poll() override { comm_.Poll(); }

  bool HasArrived(int bucket) override { return handles_[static_cast<size_t>(bucket)]->Test(); }

  void Land(int bucket) override {
    std::unique_ptr<Handle>& handle = handles_[static_cast<size_t>(bucket)];
    handle->Wait();
    handle.reset();
    const BucketRange& range = buckets_[static_cast<size_t>(bucket)];
    if (wire_type_ != DType::kFloat32) {
      WidenFromWire(wire_[static_cast<size_t>(bucket)].data(), range.elements(), wire_type_,
                    comm_.size(), gradients_->data() + range.begin);
    }
    gradients_->Return(range);
  }

  void Settle() override { gradients_->Synchronize(); }

  int64_t BytesOf(int bucket) const override {
    return buckets_[static_cast<size_t>(bucket)].elements() *
           static_cast<int64_t>(SizeOf(wire_type_));
  }

 private:
  std::shared_ptr<HostGradients> gradients_;
  std::vector<BucketRange> buckets_;
  Communicator& comm_;
  DType wire_type_;
  std::vector<std::vector<std::byte>> wire_;  // by bucket; empty in float32
  std::vector<std::unique_ptr<Handle>> handles_;
};

}  // namespace

std::unique_ptr<BucketExchange> MakePlainExchange(std::shared_ptr<HostGradients> gradients,
                                                  std::vector<BucketRange> buckets,
                                                  Communicator& comm, DType wire_type) {
  return std::make_unique<PlainExchange>(std::move(gradients), std::move(buckets), comm, wire_type);
}

}  // namespace dtrain::internal
