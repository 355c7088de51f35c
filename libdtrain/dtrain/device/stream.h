// stream.h - an ordered queue of work on one device; on the CPU every op has run when it returns.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_STREAM_H_
#define DTRAIN_DEVICE_STREAM_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "dtrain/device/device.h"
#include "dtrain/device/staging.h"

namespace dtrain {

// Ops take the stream they run on as their last argument. A stream belongs to one thread; copies
// are the same queue.
class Stream {
 public:
  explicit Stream(const Device& device = {});

  const Device& device() const { return device_; }

  // Returns when all work issued to this stream has finished. CudaError where some of it failed.
  void Synchronize();

  // Memory of the device for the partial results of one op, contents undefined, 256-byte aligned:
  // valid until the next Scratch() of this stream. On a GPU only. Growing waits for the stream.
  // `op` ("attention") is named where the GPU is full: DeviceMemoryError.
  std::byte* Scratch(size_t bytes, std::string_view op);

  // For CopyToDevice(). On a GPU only.
  Staging& staging();

  // The CUDA stream; null on the CPU.
  void* handle() const { return queue_ ? queue_->handle : nullptr; }

 private:
  struct Queue {
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

  Device device_;
  std::shared_ptr<Queue> queue_;  // null on the CPU
};

// Waits for all streams of the device. CudaError while a thread records, whose graph fails too.
void SynchronizeDevice(const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_STREAM_H_
