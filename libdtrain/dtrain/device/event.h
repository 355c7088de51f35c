// event.h - a point in a stream's work that the host can wait for without waiting for the rest.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_EVENT_H_
#define DTRAIN_DEVICE_EVENT_H_

#include "dtrain/device/device.h"

namespace dtrain {

class Stream;

// On the CPU, where every op has run when it returns, nothing at all.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  // From now on this is the point behind all work issued to `stream` so far.
  void Record(Stream& stream);
  // Returns when the device has passed the point; at once where none was recorded.
  void Wait();

 private:
  Device device_;
  void* handle_ = nullptr;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_EVENT_H_
