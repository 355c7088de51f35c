// staging.h - copies from any host memory to a GPU that the host does not wait for.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_STAGING_H_
#define DTRAIN_DEVICE_STAGING_H_

#include <array>
#include <cstddef>

#include "dtrain/device/buffer.h"
#include "dtrain/device/event.h"

namespace dtrain {

class Stream;

// A copy from memory that is not pinned makes the host wait until the GPU has come to it. Here the
// bytes go to pinned memory first: two buffers take turns, and one is written anew only when the
// GPU has passed the copies out of it.
class Staging {
 public:
  // Larger copies are rare (weights, at the start) and not worth the memory.
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  explicit Staging(const Device& device) : device_(device) {}

  // Issues the copy of up to kMaxBytes to `stream`; `host` may be reused when the call returns.
  void Copy(void* to, const void* host, size_t bytes, Stream& stream);

 private:
  struct Half {
    Buffer buffer;
    size_t used = 0;
    Event copied;  // out of it
  };

  Device device_;
  std::array<Half, 2> halves_;
  size_t current_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_STAGING_H_
