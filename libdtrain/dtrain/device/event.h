// event.h - a point in a stream's work that the host can wait for.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_EVENT_H_
#define DTRAIN_DEVICE_EVENT_H_

#include "dtrain/device/device.h"

namespace dtrain {

class Stream;

// The host waits for the work issued before the point, not for later work. On the CPU an event does
// nothing, because every op has finished when it returns.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  // Moves the event to the current end of the stream: after all work issued so far.
  void Record(Stream& stream);
  // Waits until the device has passed the point. Returns at once if no point was recorded.
  void Wait();

 private:
  Device device_;
  void* handle_ = nullptr;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_EVENT_H_
