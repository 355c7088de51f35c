// buffer.h - one block of device memory, or of host memory that a GPU can access.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_BUFFER_H_
#define DTRAIN_DEVICE_BUFFER_H_

#include <cstddef>

#include "dtrain/device/arena.h"
#include "dtrain/device/device.h"

namespace dtrain {

// For the few blocks that live as long as their owner; tensors come from arenas. A new buffer is
// filled with zeros and aligned to at least 64 bytes.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Device& device, size_t bytes, ArenaMemory memory = ArenaMemory::kDevice);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Device device_;
  ArenaMemory memory_ = ArenaMemory::kDevice;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_BUFFER_H_
