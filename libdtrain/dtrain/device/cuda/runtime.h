// runtime.h - the CUDA runtime functions this library uses, without CUDA's headers.
// SPDX-License-Identifier: Apache-2.0
//
// runtime.cc implements them with the static CUDA runtime; test builds implement them on host
// memory. Unless noted otherwise, all functions throw CudaError with CUDA's own text.
#ifndef DTRAIN_DEVICE_CUDA_RUNTIME_H_
#define DTRAIN_DEVICE_CUDA_RUNTIME_H_

#include <cstddef>
#include <string>

#include "dtrain/device/device.h"

namespace dtrain::cuda {

struct DeviceProperties {
  std::string name;
  std::string id;              // unique among all GPUs, also those of other hosts
  int compute_capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  size_t total_bytes = 0;
  size_t free_bytes = 0;
};

// Number of GPUs this process sees. If it is 0, `why` receives the reason (no GPU, no driver).
int DeviceCount(std::string* why = nullptr);
DeviceProperties Properties(const Device& device);

// Device memory, aligned to 256 bytes. Throws std::bad_alloc if the device has too little.
void* Allocate(const Device& device, size_t bytes);
void Free(const Device& device, void* memory) noexcept;
// Pinned host memory, which the device reads and writes at the same address.
void* AllocatePinned(const Device& device, size_t bytes);
void FreePinned(void* memory) noexcept;

// A stream is an ordered queue of work; its handle is opaque.
void* CreateStream(const Device& device);
void DestroyStream(const Device& device, void* stream) noexcept;
void Synchronize(const Device& device, void* stream);
// Waits for all streams of the device. Fails while any thread is recording, and makes that thread's
// EndCapture() fail too.
void SynchronizeDevice(const Device& device);

// Copies between any two memories. Unpinned host memory may be reused as soon as the call returns
// if it is the source, and is complete when the call returns if it is the target.
void Copy(const Device& device, void* to, const void* from, size_t bytes, void* stream);
void Fill(const Device& device, void* to, int byte, size_t bytes, void* stream);
// Fills `rows` pieces of `row_bytes`. Each piece starts `stride_bytes` after the previous one.
void FillRows(const Device& device, void* to, size_t stride_bytes, int byte, size_t row_bytes,
              size_t rows, void* stream);

// Until EndCapture(), work that this thread issues to `stream` is recorded instead of run. Waiting
// or allocating in between fails and makes EndCapture() fail too.
void BeginCapture(const Device& device, void* stream);
bool IsCapturing(const Device& device, void* stream);
// Ends the recording and returns it as a graph that can be launched any number of times. The
// recording has also ended if this function throws.
void* EndCapture(const Device& device, void* stream);
void LaunchGraph(const Device& device, void* graph, void* stream);
void DestroyGraph(const Device& device, void* graph) noexcept;

// An event is a point in a stream's work. With `with_clock` it stores the time when the device
// reached it, which benchmarks use and which costs a little.
void* CreateEvent(const Device& device, bool with_clock = true);
void DestroyEvent(const Device& device, void* event) noexcept;
void RecordEvent(const Device& device, void* event, void* stream);
// Makes the host wait until the device has passed the point.
void WaitForEvent(const Device& device, void* event);
// Waits until the device has passed `end` and returns the time between both points. Both must have
// been recorded in the same stream, `start` first.
double SecondsBetween(const Device& device, void* start, void* end);

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_RUNTIME_H_
