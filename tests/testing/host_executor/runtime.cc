// runtime.cc - device/cuda/runtime.h on host memory: the GPU that the executor pretends to be.
// SPDX-License-Identifier: Apache-2.0
//
// Work runs when it is issued, so streams are numbers and waiting is nothing. New memory holds NaN
// bytes: what a kernel reads without anybody having written it shows.
#include "dtrain/device/cuda/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "dtrain/device/cuda/error.h"
#include "testing/host_executor/cublaslt.h"
#include "testing/host_executor/gpus.h"

namespace dtrain::host_executor {

GpuSettings& Gpus() {
  static GpuSettings settings;
  return settings;
}

}  // namespace dtrain::host_executor

namespace dtrain::cuda {
namespace {

constexpr size_t kAlignment = 256;

using TimePoint = std::chrono::steady_clock::time_point;

TimePoint& AsTime(void* event) { return *static_cast<TimePoint*>(event); }

// What is allocated of device memory, by address.
struct Memory {
  std::mutex mutex;
  std::map<void*, size_t> blocks;
  size_t used = 0;
};
Memory& TheMemory() {
  static Memory memory;
  return memory;
}

void* AllocateHost(size_t bytes) {
  const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, size);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0xff, size);
  return memory;
}

}  // namespace

int DeviceCount(std::string* why) {
  const auto count = static_cast<int>(host_executor::Gpus().gpus.size());
  if (count == 0 && why != nullptr) *why = host_executor::Gpus().why;
  return count;
}

DeviceProperties Properties(const Device& device) {
  const auto index = static_cast<size_t>(device.index);
  const std::vector<host_executor::Gpu>& gpus = host_executor::Gpus().gpus;
  if (index >= gpus.size()) {
    throw CudaError("cudaSetDevice(device.index): cudaErrorInvalidDevice, invalid device ordinal");
  }
  const host_executor::Gpu& gpu = gpus[index];
  Memory& memory = TheMemory();
  const std::scoped_lock lock(memory.mutex);
  // Few multiprocessors, so that persistent grids wrap around in small tests.
  return {.name = gpu.name,
          .id = gpu.id.empty() ? "process " + std::to_string(getpid()) : gpu.id,
          .compute_capability = gpu.compute_capability,
          .multiprocessors = 3,
          .total_bytes = gpu.bytes,
          .free_bytes = gpu.bytes - std::min(gpu.bytes, memory.used)};
}

void* Allocate(const Device& device, size_t bytes) {
  if (device.index != 0) throw CudaError("work runs on the first emulated GPU");
  Memory& memory = TheMemory();
  const std::scoped_lock lock(memory.mutex);
  if (memory.used + bytes > host_executor::Gpus().gpus.at(0).bytes) throw std::bad_alloc();
  void* const block = AllocateHost(bytes);
  memory.blocks[block] = bytes;
  memory.used += bytes;
  return block;
}

void Free(const Device&, void* block) noexcept {
  Memory& memory = TheMemory();
  const std::scoped_lock lock(memory.mutex);
  const auto found = memory.blocks.find(block);
  if (found == memory.blocks.end()) return;
  memory.used -= found->second;
  memory.blocks.erase(found);
  std::free(block);
}

void* AllocatePinned(const Device&, size_t bytes) { return AllocateHost(bytes); }

void FreePinned(void* memory) noexcept { std::free(memory); }

void* CreateStream(const Device&) {
  static char stream;
  return &stream;
}

void DestroyStream(const Device&, void*) noexcept {}
void Synchronize(const Device&, void*) {}
void SynchronizeDevice(const Device&) {}

void Copy(const Device&, void* to, const void* from, size_t bytes, void*) {
  std::memcpy(to, from, bytes);
}

void Fill(const Device&, void* to, int byte, size_t bytes, void*) { std::memset(to, byte, bytes); }

void FillRows(const Device&, void* to, size_t stride_bytes, int byte, size_t row_bytes, size_t rows,
              void*) {
  for (size_t row = 0; row < rows; ++row) {
    std::memset(static_cast<std::byte*>(to) + row * stride_bytes, byte, row_bytes);
  }
}

void* CreateEvent(const Device&) { return new TimePoint(); }

void DestroyEvent(const Device&, void* event) noexcept { delete static_cast<TimePoint*>(event); }

void RecordEvent(const Device&, void* event, void*) {
  AsTime(event) = std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                      std::chrono::duration<double>(host_executor::ClockSeconds()));
}

double SecondsBetween(const Device&, void* start, void* end) {
  return std::chrono::duration<double>(AsTime(end) - AsTime(start)).count();
}

}  // namespace dtrain::cuda
