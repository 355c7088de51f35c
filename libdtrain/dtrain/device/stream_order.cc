// stream_order.cc - CUDA events without timing, which streams wait for or the host queries.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/stream_order.h"

#include "dtrain/base/check.h"
#include "dtrain/device/cuda/event_order.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {

void RunBehind(Stream& stream, const Stream& other) {
  DT_CHECK(stream.device() == other.device()) << "a stream waits for one of its own device";
  if constexpr (kWithCuda) {
    if (stream.device().type == DeviceType::kCpu) return;
    void* const event = cuda::CreateEvent(stream.device(), /*with_clock=*/false);
    cuda::RecordEvent(stream.device(), event, other.handle());
    cuda::MakeWait(stream.device(), stream.handle(), event);
    cuda::DestroyEvent(stream.device(), event);  // CUDA frees the event after the wait
  }
}

void RunBehind(Stream& stream, const StreamMark& mark) {
  DT_CHECK(stream.device() == mark.device_) << "a stream waits for a mark of its own device";
  if constexpr (kWithCuda) {
    if (mark.event_ != nullptr) cuda::MakeWait(stream.device(), stream.handle(), mark.event_);
  }
}

StreamMark::StreamMark(const Stream& stream) : device_(stream.device()) {
  if constexpr (kWithCuda) {
    if (device_.type == DeviceType::kCpu) return;
    event_ = cuda::CreateEvent(device_, /*with_clock=*/false);
    cuda::RecordEvent(device_, event_, stream.handle());
  }
}

StreamMark::~StreamMark() {
  if constexpr (kWithCuda) {
    if (event_ != nullptr) cuda::DestroyEvent(device_, event_);
  }
}

bool StreamMark::HasPassed() const {
  if constexpr (kWithCuda) return event_ == nullptr || cuda::HasPassed(device_, event_);
  return true;
}

}  // namespace dtrain
