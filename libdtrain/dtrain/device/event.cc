// event.cc - a CUDA event without timing, created when first recorded.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/event.h"

#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {

Event::~Event() {
  if constexpr (kWithCuda) {
    if (handle_ != nullptr) cuda::DestroyEvent(device_, handle_);
  }
}

void Event::Record(Stream& stream) {
  if constexpr (kWithCuda) {
    if (stream.device().type == DeviceType::kCpu) return;
    if (handle_ == nullptr) {
      device_ = stream.device();
      handle_ = cuda::CreateEvent(device_, /*with_clock=*/false);
    }
    cuda::RecordEvent(device_, handle_, stream.handle());
  }
}

void Event::Wait() {
  if constexpr (kWithCuda) {
    if (handle_ != nullptr) cuda::WaitForEvent(device_, handle_);
  }
}

}  // namespace dtrain
