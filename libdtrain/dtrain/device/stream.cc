// stream.cc - a CUDA stream with its scratch memory, or nothing on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/stream.h"

#include "dtrain/base/check.h"
#include "dtrain/device/cuda/error.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/internal/held_memory.h"
#include "dtrain/device/staging.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {
namespace {

// The role of this memory in messages about a full GPU.
constexpr const char* kScratchRole = "scratch buffers of kernels";

void FreeScratch(const Device& device, std::byte*& scratch, size_t bytes) {
  if constexpr (kWithCuda) {
    if (scratch == nullptr) return;
    internal::GiveMemory(device, kScratchRole, scratch, bytes, ArenaMemory::kDevice);
    scratch = nullptr;
  }
}

}  // namespace

struct Stream::Queue {
  explicit Queue(const Device& queue_device);
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue();

  Device device;
  void* handle = nullptr;
  std::byte* scratch = nullptr;
  size_t scratch_bytes = 0;
  Staging staging;
};

Stream::Stream(const Device& device) : device_(device) {
  if constexpr (kWithCuda) {
    if (device.type == DeviceType::kCuda) queue_ = std::make_shared<Queue>(device);
  }
  DT_CHECK(queue_ != nullptr || device.type == DeviceType::kCpu) << "this build has no CUDA device";
  if (queue_) handle_ = queue_->handle;
}

void Stream::Synchronize() {
  if constexpr (kWithCuda) {
    if (queue_) cuda::Synchronize(device_, queue_->handle);
  }
}

std::byte* Stream::Scratch(size_t bytes, std::string_view op) {
  DT_CHECK(queue_ != nullptr) << "scratch is for kernels of a GPU";
  if constexpr (kWithCuda) {
    if (bytes > queue_->scratch_bytes) {
      constexpr size_t kSmallest = size_t{1} << 20;
      Synchronize();
      FreeScratch(device_, queue_->scratch, queue_->scratch_bytes);
      queue_->scratch_bytes = 0;
      const size_t size = bytes < kSmallest ? kSmallest : bytes + bytes / 4;
      queue_->scratch = static_cast<std::byte*>(
          internal::TakeMemory(device_, kScratchRole, size, bytes, ArenaMemory::kDevice, op));
      queue_->scratch_bytes = size;
    }
  }
  return queue_->scratch;
}

Staging& Stream::staging() {
  DT_CHECK(queue_ != nullptr) << "copies are staged for a GPU";
  return queue_->staging;
}

void SynchronizeDevice(const Device& device) {
  if constexpr (kWithCuda) {
    if (device.type == DeviceType::kCuda) cuda::SynchronizeDevice(device);
  }
}

Stream::Queue::Queue(const Device& queue_device) : device(queue_device), staging(queue_device) {
  if constexpr (kWithCuda) handle = cuda::CreateStream(device);
}

Stream::Queue::~Queue() {
  if constexpr (kWithCuda) {
    // The pinned memory must not be freed while a copy out of it is pending.
    try {
      cuda::Synchronize(device, handle);
    } catch (const CudaError&) {
      // The process has lost its GPU state. The first call that sees this reports it.
    }
    FreeScratch(device, scratch, scratch_bytes);
    cuda::DestroyStream(device, handle);
  }
}

}  // namespace dtrain
