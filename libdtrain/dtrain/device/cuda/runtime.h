// runtime.h - the few functions of the CUDA runtime the library uses, without CUDA's headers.
// SPDX-License-Identifier: Apache-2.0
//
// Defined by runtime.cc on the static CUDA runtime; test builds define them on host memory instead.
// All throw CudaError with CUDA's text unless said otherwise.
#ifndef DTRAIN_DEVICE_CUDA_RUNTIME_H_
#define DTRAIN_DEVICE_CUDA_RUNTIME_H_

#include <cstddef>
#include <string>

#include "dtrain/device/device.h"

namespace dtrain::cuda {

struct DeviceProperties {
  std::string name;
  std::string id;              // tells it from all other GPUs, also of other hosts
  int compute_capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  size_t total_bytes = 0;
  size_t free_bytes = 0;
};

// GPUs this process sees; 0 without a GPU or a driver, and then `why` says which.
int DeviceCount(std::string* why = nullptr);
DeviceProperties Properties(const Device& device);

// Device memory, aligned to 256 bytes. std::bad_alloc where there is not enough.
void* Allocate(const Device& device, size_t bytes);
void Free(const Device& device, void* memory) noexcept;
// Host memory that the device reads and writes at the same address.
void* AllocatePinned(const Device& device, size_t bytes);
void FreePinned(void* memory) noexcept;

// An ordered queue of work, an opaque handle.
void* CreateStream(const Device& device);
void DestroyStream(const Device& device, void* stream) noexcept;
void Synchronize(const Device& device, void* stream);
// All streams of the device. Refused while any thread records, whose EndCapture() then is too.
void SynchronizeDevice(const Device& device);

// Between any two memories. Host memory that is not pinned may be reused when the call returns if
// it is the source; as a target it is complete when the call returns.
void Copy(const Device& device, void* to, const void* from, size_t bytes, void* stream);
void Fill(const Device& device, void* to, int byte, size_t bytes, void* stream);
// `rows` pieces of `row_bytes`, `stride_bytes` apart.
void FillRows(const Device& device, void* to, size_t stride_bytes, int byte, size_t row_bytes,
              size_t rows, void* stream);

// From here to EndCapture() what this thread issues to `stream` is recorded instead of run. Waiting
// and allocating are refused in between, and then so is EndCapture().
void BeginCapture(const Device& device, void* stream);
bool IsCapturing(const Device& device, void* stream);
// The recorded work as a graph that can be launched any number of times. Whether it throws or not,
// nothing is recorded any more.
void* EndCapture(const Device& device, void* stream);
void LaunchGraph(const Device& device, void* graph, void* stream);
void DestroyGraph(const Device& device, void* graph) noexcept;

// A point in a stream's work; `with_clock` it remembers when the device reached it, which costs a
// little: what benchmarks time with.
void* CreateEvent(const Device& device, bool with_clock = true);
void DestroyEvent(const Device& device, void* event) noexcept;
void RecordEvent(const Device& device, void* event, void* stream);
// Waits until the device has passed the point.
void WaitForEvent(const Device& device, void* event);
// Waits until the device has passed `end`. Both were recorded, `start` first, in one stream.
double SecondsBetween(const Device& device, void* start, void* end);

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_RUNTIME_H_
