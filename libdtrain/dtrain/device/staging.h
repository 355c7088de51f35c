// staging.h - copies host memory to a GPU without making the host wait.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_STAGING_H_
#define DTRAIN_DEVICE_STAGING_H_

#include <array>
#include <cstddef>

#include "dtrain/device/buffer.h"
#include "dtrain/device/event.h"

namespace dtrain {

class Stream;

// A direct copy from memory that is not pinned makes the host wait until the GPU reaches the copy.
// Staging first copies the bytes to one of two pinned buffers, used in turns. A buffer is
// overwritten only after the GPU has finished the copies out of it.
class Staging {
 public:
  // Larger copies are rare (weights at the start) and not worth the pinned memory.
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  explicit Staging(const Device& device) : device_(device) {}

  // Issues a copy of up to kMaxBytes to `stream`. `host` may be reused when the call returns.
  void Copy(void* to, const void* host, size_t bytes, Stream& stream);

 private:
  struct Half {
    Buffer buffer;
    size_t used = 0;
    Event copied;  // after the last copy out of this buffer
  };

  Device device_;
  std::array<Half, 2> halves_;
  size_t current_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_STAGING_H_
