// stream_order.h - orders streams after each other without making the host wait.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_STREAM_ORDER_H_
#define DTRAIN_DEVICE_STREAM_ORDER_H_

#include "dtrain/device/stream.h"

namespace dtrain {

// Work issued to `stream` from now on runs after all work issued to `other` so far. Both streams
// belong to the same device.
void RunBehind(Stream& stream, const Stream& other);

class StreamMark;
// Work issued to `stream` from now on runs after all work issued before the mark.
void RunBehind(Stream& stream, const StreamMark& mark);

// Marks the current end of a stream: the point after all work issued to it so far.
class StreamMark {
 public:
  explicit StreamMark(const Stream& stream);
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  ~StreamMark();

  // True if the device has passed the mark. Throws CudaError if work before it failed.
  bool HasPassed() const;

 private:
  friend void RunBehind(Stream& stream, const StreamMark& mark);

  Device device_;
  void* event_ = nullptr;  // null on the CPU, where every op has finished when it returns
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_STREAM_ORDER_H_
