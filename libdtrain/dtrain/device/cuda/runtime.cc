// runtime.cc - implements runtime.h with the CUDA runtime library.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/runtime.h"

#include <cuda_runtime_api.h>

#include <new>

#include "dtrain/device/cuda/check.h"
#include "dtrain/device/cuda/event_order.h"

namespace dtrain::cuda {
namespace {

// Selects the device for the calling thread, because the runtime's calls use the current device.
void Use(const Device& device) { DT_CHECK_CUDA(cudaSetDevice(device.index)); }

cudaStream_t AsStream(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t AsEvent(void* event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

int DeviceCount(std::string* why) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  if (why != nullptr) *why = cudaGetErrorString(error);
  return 0;
}

DeviceProperties Properties(const Device& device) {
  Use(device);
  cudaDeviceProp properties{};
  DT_CHECK_CUDA(cudaGetDeviceProperties(&properties, device.index));
  DeviceProperties result{.name = properties.name,
                          .id = std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes)),
                          .compute_capability = 10 * properties.major + properties.minor,
                          .multiprocessors = properties.multiProcessorCount};
  DT_CHECK_CUDA(cudaMemGetInfo(&result.free_bytes, &result.total_bytes));
  return result;
}

void* Allocate(const Device& device, size_t bytes) {
  Use(device);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw std::bad_alloc();
  }
  DT_CHECK_CUDA(error);
  return memory;
}

void Free(const Device& device, void* memory) noexcept {
  static_cast<void>(cudaSetDevice(device.index));
  static_cast<void>(cudaFree(memory));
}

void* AllocatePinned(const Device& device, size_t bytes) {
  Use(device);
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw std::bad_alloc();
  }
  DT_CHECK_CUDA(error);
  return memory;
}

void FreePinned(void* memory) noexcept { static_cast<void>(cudaFreeHost(memory)); }

void* CreateStream(const Device& device) {
  Use(device);
  cudaStream_t stream = nullptr;
  DT_CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

void DestroyStream(const Device& device, void* stream) noexcept {
  static_cast<void>(cudaSetDevice(device.index));
  static_cast<void>(cudaStreamDestroy(AsStream(stream)));
}

void Synchronize(const Device& device, void* stream) {
  Use(device);
  DT_CHECK_CUDA(cudaStreamSynchronize(AsStream(stream)));
}

void SynchronizeDevice(const Device& device) {
  Use(device);
  DT_CHECK_CUDA(cudaDeviceSynchronize());
}

void Copy(const Device& device, void* to, const void* from, size_t bytes, void* stream) {
  Use(device);
  DT_CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, AsStream(stream)));
}

void Fill(const Device& device, void* to, int byte, size_t bytes, void* stream) {
  Use(device);
  DT_CHECK_CUDA(cudaMemsetAsync(to, byte, bytes, AsStream(stream)));
}

void FillRows(const Device& device, void* to, size_t stride_bytes, int byte, size_t row_bytes,
              size_t rows, void* stream) {
  // A stride may be at most cudaDeviceProp::memPitch (2 GiB - 1). A single piece has no such limit.
  if (rows == 1) return Fill(device, to, byte, row_bytes, stream);
  Use(device);
  DT_CHECK_CUDA(cudaMemset2DAsync(to, stride_bytes, byte, row_bytes, rows, AsStream(stream)));
}

void BeginCapture(const Device& device, void* stream) {
  Use(device);
  // Thread-local mode lets other threads of the process keep allocating.
  DT_CHECK_CUDA(cudaStreamBeginCapture(AsStream(stream), cudaStreamCaptureModeThreadLocal));
}

bool IsCapturing(const Device& device, void* stream) {
  Use(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  DT_CHECK_CUDA(cudaStreamIsCapturing(AsStream(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

void* EndCapture(const Device& device, void* stream) {
  Use(device);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(AsStream(stream), &graph);
  if (ended != cudaSuccess) static_cast<void>(cudaGetLastError());
  DT_CHECK_CUDA(ended);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiateWithFlags(&executable, graph, 0);
  if (made != cudaSuccess) static_cast<void>(cudaGetLastError());
  static_cast<void>(cudaGraphDestroy(graph));
  DT_CHECK_CUDA(made);
  return executable;
}

void LaunchGraph(const Device& device, void* graph, void* stream) {
  Use(device);
  DT_CHECK_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), AsStream(stream)));
}

void DestroyGraph(const Device& device, void* graph) noexcept {
  static_cast<void>(cudaSetDevice(device.index));
  static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

void* CreateEvent(const Device& device, bool with_clock) {
  Use(device);
  cudaEvent_t event = nullptr;
  DT_CHECK_CUDA(
      cudaEventCreateWithFlags(&event, with_clock ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}

void DestroyEvent(const Device& device, void* event) noexcept {
  static_cast<void>(cudaSetDevice(device.index));
  static_cast<void>(cudaEventDestroy(AsEvent(event)));
}

void RecordEvent(const Device& device, void* event, void* stream) {
  Use(device);
  DT_CHECK_CUDA(cudaEventRecord(AsEvent(event), AsStream(stream)));
}

void WaitForEvent(const Device& device, void* event) {
  Use(device);
  DT_CHECK_CUDA(cudaEventSynchronize(AsEvent(event)));
}

bool HasPassed(const Device& device, void* event) {
  Use(device);
  const cudaError_t error = cudaEventQuery(AsEvent(event));
  if (error == cudaErrorNotReady) return false;
  DT_CHECK_CUDA(error);
  return true;
}

void MakeWait(const Device& device, void* stream, void* event) {
  Use(device);
  DT_CHECK_CUDA(cudaStreamWaitEvent(AsStream(stream), AsEvent(event), 0));
}

double SecondsBetween(const Device& device, void* start, void* end) {
  Use(device);
  DT_CHECK_CUDA(cudaEventSynchronize(AsEvent(end)));
  float milliseconds = 0.0F;
  DT_CHECK_CUDA(cudaEventElapsedTime(&milliseconds, AsEvent(start), AsEvent(end)));
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace dtrain::cuda
