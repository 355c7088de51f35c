// runtime.cc - device/cuda/runtime.h on host memory: the GPU that the executor pretends to be.
// SPDX-License-Identifier: Apache-2.0
//
// Work runs when it is issued, so streams are numbers and waiting is nothing. New memory holds NaN
// bytes: what a kernel reads without anybody having written it shows.
#include "dtrain/device/cuda/runtime.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "dtrain/device/cuda/error.h"
#include "testing/host_executor/cublaslt.h"

namespace dtrain::cuda {
namespace {

constexpr size_t kAlignment = 256;

using TimePoint = std::chrono::steady_clock::time_point;

TimePoint& AsTime(void* event) { return *static_cast<TimePoint*>(event); }

}  // namespace

int DeviceCount(std::string*) { return 1; }

DeviceProperties Properties(const Device&) {
  // Few multiprocessors, so that persistent grids wrap around in small tests.
  return {.name = "host executor",
          .id = "process " + std::to_string(getpid()),
          .compute_capability = 90,
          .multiprocessors = 3,
          .total_bytes = size_t{8} << 30,
          .free_bytes = size_t{8} << 30};
}

void* Allocate(const Device& device, size_t bytes) {
  if (device.index != 0) throw CudaError("there is one emulated GPU");
  const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, size);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0xff, size);
  return memory;
}

void Free(const Device&, void* memory) noexcept { std::free(memory); }

void* AllocatePinned(const Device& device, size_t bytes) { return Allocate(device, bytes); }

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
