// stream_order.h - one stream behind another, and how far a stream has come: the host never waits.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_STREAM_ORDER_H_
#define DTRAIN_DEVICE_STREAM_ORDER_H_

#include "dtrain/device/stream.h"

namespace dtrain {

// What is issued to `stream` from now on runs after all that was issued to `other`, of the same
// device, so far.
void RunBehind(Stream& stream, const Stream& other);

class StreamMark;
// The same, after what was issued before the mark.
void RunBehind(Stream& stream, const StreamMark& mark);

// The point behind all that was issued to a stream until now.
class StreamMark {
 public:
  explicit StreamMark(const Stream& stream);
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  ~StreamMark();

  // Whether the device has passed it. CudaError where work before it failed.
  bool HasPassed() const;

 private:
  friend void RunBehind(Stream& stream, const StreamMark& mark);

  Device device_;
  void* event_ = nullptr;  // null on the CPU, where every op has run when it returns
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_STREAM_ORDER_H_
