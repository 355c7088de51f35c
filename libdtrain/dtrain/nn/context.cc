// context.cc - dropout's steps, and uploads of ids to the device.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/context.h"

#include <cstring>

#include "dtrain/base/check.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/copy.h"
#include "dtrain/ops/dropout.h"

namespace dtrain {
namespace {

uint64_t SeedOfRank(uint64_t seed, int rank) {
  // Odd, so that every rank gets a different seed: the golden ratio in 64 bits (Weyl's sequence).
  constexpr uint64_t kRankStride = 0x9E3779B97F4A7C15u;
  return seed + kRankStride * static_cast<uint64_t>(rank);
}

}  // namespace

Context::Context(const Device& device, const ContextOptions& options)
    : options_(options),
      stream_(device),
      activations_(
          Arena::Create(device, "activations", Arena::kDefaultCapacity, ArenaMemory::kGrowing)) {
  if (device.type == DeviceType::kCuda) {
    device_steps_ = NewTensor({sizeof(steps_)}, DType::kUint8, device);
    CopyToDevice(device_steps_.raw(), &steps_, sizeof(steps_), stream_);
  }
}

void Context::set_step(int64_t update, int64_t part) {
  DT_CHECK(part >= 0 && part < kMostParts) << "micro-batch " << part;
  steps_ = {.update = static_cast<uint32_t>(update),
            .pass = static_cast<uint32_t>(update * kMostParts + part)};
  if (device_steps_) CopyToDevice(device_steps_.raw(), &steps_, sizeof(steps_), stream_);
}

static_assert(Context::kListAlignment * HostList::kElementBytes == Arena::kAlignment);

int64_t Context::UploadedElements(std::span<const int64_t> counts) {
  int64_t elements = 0;
  for (const int64_t count : counts) {
    elements += (count + kListAlignment - 1) / kListAlignment * kListAlignment;
  }
  return elements;
}

std::vector<Tensor> Context::Upload(std::span<const HostList> lists) {
  std::vector<size_t> begins;
  size_t bytes = 0;
  for (const HostList& list : lists) {
    begins.push_back(bytes);
    bytes += static_cast<size_t>(UploadedElements({&list.elements, 1})) * HostList::kElementBytes;
  }
  std::vector<std::byte> packed(bytes);
  for (size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].elements == 0) continue;
    std::memcpy(packed.data() + begins[i], lists[i].data,
                static_cast<size_t>(lists[i].elements) * HostList::kElementBytes);
  }
  const std::shared_ptr<std::byte> block = activations_->Allocate(bytes);
  CopyToDevice(block.get(), packed.data(), bytes, stream_);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < lists.size(); ++i) {
    tensors.emplace_back(block.get() + begins[i], Shape({lists[i].elements}), lists[i].dtype,
                         device(), block);
  }
  return tensors;
}

Dropout Context::MakeDropout(float probability, uint32_t site, const Tensor& row_numbers) const {
  const bool numbered = static_cast<bool>(row_numbers);
  const auto* const device_steps = static_cast<const Steps*>(device_steps_.raw());
  Dropout dropout{.probability = training_ ? probability : 0.0f,
                  .key = {.seed = options_.seed, .step = steps_.update, .site = site},
                  .row_numbers = row_numbers};
  if (!numbered) {
    dropout.key.seed = SeedOfRank(options_.seed, options_.rank);
    dropout.key.step = steps_.pass;
  }
  if (device_steps != nullptr) {
    dropout.device_step = numbered ? &device_steps->update : &device_steps->pass;
  }
  return dropout;
}

}  // namespace dtrain
