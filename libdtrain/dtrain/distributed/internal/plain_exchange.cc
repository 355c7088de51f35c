// plain_exchange.cc - rounds a bucket for the wire, sums it over ranks, widens the sums.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/plain_exchange.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "dtrain/distributed/internal/wire_format.h"

namespace dtrain::internal {
namespace {

class PlainExchange final : public BucketExchange {
 public:
  PlainExchange(std::shared_ptr<HostGradients> gradients, std::vector<BucketRange> buckets,
                Communicator& comm, DType wire_type, std::vector<std::vector<int64_t>> slices)
      : gradients_(std::move(gradients)),
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

  void Prepare(int bucket) override {
    const BucketRange& range = buckets_[static_cast<size_t>(bucket)];
    if (range.elements() == 0) return;
    gradients_->Fetch(range);
    if (wire_type_ == DType::kFloat32) return;
    RoundToWire(gradients_->data() + range.begin, range.elements(), wire_type_, comm_.size(),
                wire_[static_cast<size_t>(bucket)].data());
  }

  void Start(int bucket) override {
    const BucketRange& range = buckets_[static_cast<size_t>(bucket)];
    if (range.elements() == 0) return;
    void* data = gradients_->data() + range.begin;
    if (wire_type_ != DType::kFloat32) data = wire_[static_cast<size_t>(bucket)].data();
    std::vector<std::unique_ptr<Handle>>& handles = handles_[static_cast<size_t>(bucket)];
    if (!slices_.empty()) {
      std::vector<int64_t> offsets = slices_[static_cast<size_t>(bucket)];
      for (int64_t& offset : offsets) offset -= range.begin;
      handles.push_back(comm_.StartReduceScatter(data, offsets, wire_type_, ReduceOp::kSum));
      return;
    }
    const bool spans_hosts = comm_.topology().local_size() < comm_.size();
    for (const BucketRange& piece : spans_hosts ? PiecesOf(range) : std::vector{range}) {
      std::byte* const begin =
          static_cast<std::byte*>(data) +
          (piece.begin - range.begin) * static_cast<int64_t>(SizeOf(wire_type_));
      handles.push_back(comm_.StartAllReduce(begin, piece.elements(), wire_type_, ReduceOp::kSum));
    }
  }

  void Poll() override { comm_.Poll(); }

  bool HasArrived(int bucket) override {
    return std::ranges::all_of(
        handles_[static_cast<size_t>(bucket)],
        [](const std::unique_ptr<Handle>& handle) { return handle->Test(); });
  }

  void Land(int bucket) override {
    std::vector<std::unique_ptr<Handle>>& handles = handles_[static_cast<size_t>(bucket)];
    if (handles.empty()) return;  // an empty bucket
    for (const std::unique_ptr<Handle>& handle : handles) handle->Wait();
    handles.clear();
    const BucketRange range = Landing(bucket);
    if (wire_type_ != DType::kFloat32) {
      const int64_t skipped = range.begin - buckets_[static_cast<size_t>(bucket)].begin;
      const std::byte* const wire = wire_[static_cast<size_t>(bucket)].data();
      WidenFromWire(wire + skipped * static_cast<int64_t>(SizeOf(wire_type_)), range.elements(),
                    wire_type_, comm_.size(), gradients_->data() + range.begin);
    }
    gradients_->Return(range);
  }

  void Settle() override { gradients_->Synchronize(); }

  int64_t BytesOf(int bucket) const override {
    return buckets_[static_cast<size_t>(bucket)].elements() *
           static_cast<int64_t>(SizeOf(wire_type_));
  }
  int64_t BytesSent() const override { return comm_.bytes_sent(); }

 private:
  // The elements whose sums this rank receives.
  BucketRange Landing(int bucket) const {
    if (slices_.empty()) return buckets_[static_cast<size_t>(bucket)];
    const std::vector<int64_t>& offsets = slices_[static_cast<size_t>(bucket)];
    const auto rank = static_cast<size_t>(comm_.rank());
    return {offsets[rank], offsets[rank + 1]};
  }

  std::shared_ptr<HostGradients> gradients_;
  std::vector<BucketRange> buckets_;
  Communicator& comm_;
  DType wire_type_;
  std::vector<std::vector<int64_t>> slices_;  // by bucket; empty: every rank receives all
  std::vector<std::vector<std::byte>> wire_;  // by bucket; empty in float32
  std::vector<std::vector<std::unique_ptr<Handle>>> handles_;  // by bucket, of its pieces
};

}  // namespace

std::unique_ptr<BucketExchange> MakePlainExchange(std::shared_ptr<HostGradients> gradients,
                                                  std::vector<BucketRange> buckets,
                                                  Communicator& comm, DType wire_type,
                                                  std::vector<std::vector<int64_t>> slices) {
  return std::make_unique<PlainExchange>(std::move(gradients), std::move(buckets), comm, wire_type,
                                         std::move(slices));
}

}  // namespace dtrain::internal
