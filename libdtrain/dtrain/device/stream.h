// stream.h - an ordered queue of work on one device.
// SPDX-License-Identifier: Apache-2.0
//
//   Stream stream(runtime.device);
//   const std::vector<float> values = {1.0f, 2.0f};
//   Tensor x = NewTensor({2}, DType::kFloat32, runtime.device);
//   Upload<float>(values, x, stream);
//   stream.Synchronize();
#ifndef DTRAIN_DEVICE_STREAM_H_
#define DTRAIN_DEVICE_STREAM_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "dtrain/device/device.h"

namespace dtrain {

class Staging;

// Ops take the stream they run on as their last argument; copies use the same queue. A stream
// belongs to one thread. On the CPU every op has finished when it returns.
class Stream {
 public:
  explicit Stream(const Device& device = {});

  const Device& device() const { return device_; }

  // Waits until all work issued to this stream has finished. Throws CudaError if any of it failed.
  void Synchronize();

  // GPU memory for the partial results of one op, with undefined contents and aligned to 256 bytes.
  // It is valid until the next call of Scratch() on this stream. If the memory must grow, the call
  // waits for the stream. Throws DeviceMemoryError, which names `op` ("attention"), if the GPU is
  // full.
  std::byte* Scratch(size_t bytes, std::string_view op);

  // The CUDA stream, or null on the CPU.
  void* handle() const { return handle_; }

 private:
  friend void CopyToDevice(void* device, const void* host, size_t bytes, Stream& stream);
  struct Queue;

  // The buffers CopyToDevice() uses. GPU only.
  Staging& staging();

  Device device_;
  std::shared_ptr<Queue> queue_;  // null on the CPU
  void* handle_ = nullptr;        // the queue's
};

// Waits for all streams of the device. Throws CudaError if any thread is recording a graph; that
// recording fails too.
void SynchronizeDevice(const Device& device);

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_STREAM_H_
