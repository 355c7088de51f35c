// stream.h - an ordered queue of work on one device; on the CPU every op has run when it returns.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_STREAM_H_
#define DTRAIN_DEVICE_STREAM_H_

#include "dtrain/device/device.h"

namespace dtrain {

// Ops take the stream they run on as their last argument. A stream belongs to one thread.
class Stream {
 public:
  explicit Stream(const Device& device = {}) : device_(device) {}

  const Device& device() const { return device_; }

  // Returns when all work issued to this stream has finished.
  void Synchronize() {}

 private:
  Device device_;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_STREAM_H_
