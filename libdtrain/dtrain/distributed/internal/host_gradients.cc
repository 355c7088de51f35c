// host_gradients.cc - pinned memory beside a GPU's gradients, and copies in a stream of its own.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/host_gradients.h"

#include <cstddef>

#include "dtrain/device/copy.h"
#include "dtrain/device/stream_order.h"

namespace dtrain::internal {
namespace {

size_t BytesOf(const BucketRange& range) {
  return static_cast<size_t>(range.elements()) * sizeof(float);
}

}  // namespace

HostGradients::HostGradients(const Tensor& flat, const std::optional<Stream>& compute)
    : flat_(flat), compute_(compute), stream_(flat.device()), data_(flat.data<float>()) {
  if (flat.device().type == DeviceType::kCpu) return;
  arena_ = Arena::Create(flat.device(), "gradients on the host", Arena::kDefaultCapacity,
                         ArenaMemory::kPinned);
  staging_ = Empty(*arena_, flat.shape(), DType::kFloat32);
  data_ = staging_.data<float>();
}

void HostGradients::Fetch(const BucketRange& range) {
  if (!staging_) return;
  if (compute_) {
    RunBehind(stream_, *compute_);
  } else {
    SynchronizeDevice(flat_.device());
  }
  CopyToHost(data_ + range.begin, flat_.data<float>() + range.begin, BytesOf(range), stream_);
}

void HostGradients::Return(const BucketRange& range) {
  if (!staging_) return;
  CopyToDevice(flat_.data<float>() + range.begin, data_ + range.begin, BytesOf(range), stream_);
}

}  // namespace dtrain::internal
