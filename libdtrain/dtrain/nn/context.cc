// context.cc - the step of dropout and ids, on their way to the device.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/context.h"

#include <algorithm>

namespace dtrain {
Context::Context(const Device& device, const ContextOptions& options)
    : options_(options), stream_(device), activations_(Arena::Create(device, "activations")) {
  if (device.type == DeviceType::kCuda) device_step_ = Buffer(device, sizeof(step_));
}

void Context::set_step(uint32_t step) {
  step_ = step;
  if (device_step_.data() != nullptr) {
    CopyToDevice(device_step_.data(), &step_, sizeof(step_), stream_);
  }
}

std::vector<Tensor> Context::Upload(std::span<const std::span<const int32_t>> lists) {
  std::vector<size_t> begins;
  size_t size = 0;
  for (const std::span<const int32_t> list : lists) {
    begins.push_back(size);
    size += (list.size() + kListAlignment - 1) / kListAlignment * kListAlignment;
  }
  std::vector<int32_t> packed(size);
  for (size_t i = 0; i < lists.size(); ++i) {
    std::copy(lists[i].begin(), lists[i].end(),
              packed.begin() + static_cast<std::ptrdiff_t>(begins[i]));
  }
  Tensor all = Empty({static_cast<int64_t>(size)}, DType::kInt32);
  dtrain::Upload<int32_t>(packed, all, stream_);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < lists.size(); ++i) {
    const auto begin = static_cast<int64_t>(begins[i]);
    tensors.push_back(all.Rows(begin, begin + static_cast<int64_t>(lists[i].size())));
  }
  return tensors;
}

Dropout Context::MakeDropout(float probability, uint32_t site) const {
  return {.probability = training_ ? probability : 0.0f,
          .key = {options_.seed, step_, site},
          .device_step = reinterpret_cast<const uint32_t*>(device_step_.data())};
}

}  // namespace dtrain
