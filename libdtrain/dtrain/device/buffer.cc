// buffer.cc - allocates with operator new on the CPU and with the CUDA runtime on a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/buffer.h"

#include <cstring>
#include <new>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/internal/held_memory.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {
namespace {

constexpr std::align_val_t kBufferAlignment{64};
// The role these blocks have in messages about a full GPU.
constexpr const char* kRole = "buffers";

// Uses a stream of its own: waiting for the whole device would break the recordings of other
// threads.
void FillWithZeros(const Device& device, std::byte* data, size_t bytes) {
  if constexpr (kWithCuda) {
    Stream stream(device);
    cuda::Fill(device, data, 0, bytes, stream.handle());
    stream.Synchronize();
  }
}

}  // namespace

Buffer::Buffer(const Device& device, size_t bytes, ArenaMemory memory)
    : device_(device), memory_(memory), bytes_(bytes) {
  DT_CHECK(kWithCuda || device.type == DeviceType::kCpu) << "this build has no CUDA device";
  if constexpr (kWithCuda) {
    if (device.type == DeviceType::kCuda) {
      data_ = static_cast<std::byte*>(internal::TakeMemory(device, kRole, bytes, bytes, memory));
      if (memory == ArenaMemory::kPinned) {
        std::memset(data_, 0, bytes);
      } else {
        FillWithZeros(device, data_, bytes);
      }
      return;
    }
  }
  data_ = static_cast<std::byte*>(::operator new(bytes, kBufferAlignment));
  std::memset(data_, 0, bytes);
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if constexpr (kWithCuda) {
    if (device_.type == DeviceType::kCuda) {
      internal::GiveMemory(device_, kRole, data_, bytes_, memory_);
      return;
    }
  }
  ::operator delete(data_, kBufferAlignment);
}

}  // namespace dtrain
