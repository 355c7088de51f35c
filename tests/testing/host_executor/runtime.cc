// runtime.cc - the GPU that the executor pretends to be: its runtime and addresses on host memory.
// SPDX-License-Identifier: Apache-2.0
//
// Work is streams.h's to run. New memory holds NaN bytes: what a kernel reads without anybody
// having written it shows.
#include "dtrain/device/cuda/runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "dtrain/device/cuda/address_space.h"
#include "dtrain/device/cuda/error.h"
#include "dtrain/device/cuda/event_order.h"
#include "testing/host_executor/cublaslt.h"
#include "testing/host_executor/gpus.h"
#include "testing/host_executor/stream_steps.h"
#include "testing/host_executor/streams.h"

namespace dtrain::host_executor {

GpuSettings& Gpus() {
  static GpuSettings settings;
  return settings;
}

int64_t& BytesToHost() {
  thread_local int64_t bytes = 0;
  return bytes;
}

std::atomic<int64_t>& AllBytesToHost() {
  static std::atomic<int64_t> bytes = 0;
  return bytes;
}

}  // namespace dtrain::host_executor

namespace dtrain::cuda {
namespace {

constexpr size_t kAlignment = 256;

using Time = std::chrono::steady_clock::time_point;

struct EmulatedEvent {
  void* stream = nullptr;  // the last one it was recorded in
  host_executor::StreamPoint point;
  // Shared with the stream, which may come to an event that is destroyed.
  std::shared_ptr<Time> time = std::make_shared<Time>();
};

EmulatedEvent& AsEvent(void* event) { return *static_cast<EmulatedEvent*>(event); }

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

// Counts more bytes as in use, with the mutex held.
void Use(Memory& memory, size_t bytes) {
  if (memory.used + bytes > host_executor::Gpus().gpus.at(0).bytes) throw std::bad_alloc();
  memory.used += bytes;
}

void CheckDevice(const Device& device) {
  if (device.index != 0) throw CudaError("work runs on the first emulated GPU");
}

void FinishQuietly() {
  try {
    host_executor::FinishAll();  // as freeing waits for the device
  } catch (const std::exception&) {
    // Reported by whoever waits for the stream; memory goes either way.
  }
}

void* AllocateHost(size_t bytes, bool is_pinned) {
  // No more than asked for: what lies after it is AddressSanitizer's.
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, bytes) != 0) throw std::bad_alloc();
  std::memset(memory, 0xff, bytes);
  host_executor::AddMemory(memory, bytes, is_pinned);
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
  CheckDevice(device);
  host_executor::RefuseWhileRecording("cudaMalloc");
  Memory& memory = TheMemory();
  const std::scoped_lock lock(memory.mutex);
  Use(memory, bytes);
  void* const block = AllocateHost(bytes, /*is_pinned=*/false);
  memory.blocks[block] = bytes;
  return block;
}

void Free(const Device&, void* block) noexcept {
  FreePinned(block);
  Memory& memory = TheMemory();
  const std::scoped_lock lock(memory.mutex);
  const auto found = memory.blocks.find(block);
  if (found == memory.blocks.end()) return;
  memory.used -= found->second;
  memory.blocks.erase(found);
}

void* AllocatePinned(const Device&, size_t bytes) {
  return AllocateHost(bytes, /*is_pinned=*/true);
}

void FreePinned(void* memory) noexcept {
  FinishQuietly();
  host_executor::RemoveMemory(memory);
  std::free(memory);
}

std::unique_ptr<AddressSpace> AddressSpace::Reserve(const Device& device, size_t bytes) {
  CheckDevice(device);
  if (!host_executor::Gpus().has_address_spaces) return nullptr;
  bytes = (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  void* const base =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  return std::unique_ptr<AddressSpace>(
      new AddressSpace(device, static_cast<std::byte*>(base), bytes));
}

AddressSpace::~AddressSpace() {
  FinishQuietly();
  std::byte* at = base_;
  for (const size_t piece : pieces_) {
    host_executor::RemoveMemory(at);
    at += piece;
  }
  munmap(base_, bytes_);
  Memory& memory = TheMemory();
  const std::scoped_lock lock(memory.mutex);
  memory.used -= backed_;
}

void AddressSpace::Grow(size_t more) {
  host_executor::RefuseWhileRecording("cuMemCreate");
  if (more > bytes_ - backed_) throw std::bad_alloc();
  {
    Memory& memory = TheMemory();
    const std::scoped_lock lock(memory.mutex);
    Use(memory, more);
  }
  std::byte* const at = base_ + backed_;
  mprotect(at, more, PROT_READ | PROT_WRITE);
  std::memset(at, 0xff, more);
  host_executor::AddMemory(at, more);
  pieces_.push_back(more);
  backed_ += more;
}

void* CreateStream(const Device&) { return host_executor::NewStream(); }

void DestroyStream(const Device&, void* stream) noexcept { host_executor::DeleteStream(stream); }
void Synchronize(const Device&, void* stream) { host_executor::Finish(stream); }
void SynchronizeDevice(const Device&) {
  host_executor::RefuseWhileAnyRecords("cudaDeviceSynchronize");
  host_executor::FinishAll();
}

void Copy(const Device&, void* to, const void* from, size_t bytes, void* stream) {
  const auto is_of_gpu = [](const void* memory) {
    return host_executor::IsDeviceMemory(memory) && !host_executor::IsPinnedMemory(memory);
  };
  if (is_of_gpu(from) && !is_of_gpu(to)) {
    host_executor::BytesToHost() += static_cast<int64_t>(bytes);
    host_executor::AllBytesToHost() += static_cast<int64_t>(bytes);
  }
  if (host_executor::IsDeviceMemory(to) && host_executor::IsDeviceMemory(from)) {
    return host_executor::Submit(stream, [=] { std::memcpy(to, from, bytes); });
  }
  // Of memory that is not pinned, by the host and in the stream's order.
  host_executor::RefuseWhileRecording("cudaMemcpyAsync of pageable memory");
  host_executor::Finish(stream);
  std::memcpy(to, from, bytes);
}

void Fill(const Device&, void* to, int byte, size_t bytes, void* stream) {
  host_executor::Submit(stream, [=] { std::memset(to, byte, bytes); });
}

void FillRows(const Device&, void* to, size_t stride_bytes, int byte, size_t row_bytes, size_t rows,
              void* stream) {
  host_executor::Submit(stream, [=] {
    for (size_t row = 0; row < rows; ++row) {
      std::memset(static_cast<std::byte*>(to) + row * stride_bytes, byte, row_bytes);
    }
  });
}

void BeginCapture(const Device&, void* stream) { host_executor::BeginRecording(stream); }
bool IsCapturing(const Device&, void* stream) { return host_executor::IsRecording(stream); }
void* EndCapture(const Device&, void* stream) { return host_executor::EndRecording(stream); }
void LaunchGraph(const Device&, void* graph, void* stream) {
  host_executor::SubmitGraph(graph, stream);
}
void DestroyGraph(const Device&, void* graph) noexcept { host_executor::DeleteGraph(graph); }

void* CreateEvent(const Device&, bool) { return new EmulatedEvent(); }

void DestroyEvent(const Device&, void* event) noexcept { delete &AsEvent(event); }

void RecordEvent(const Device&, void* event, void* stream) {
  AsEvent(event).stream = stream;
  host_executor::Submit(stream, [time = AsEvent(event).time] {
    *time = std::chrono::steady_clock::now() +
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                std::chrono::duration<double>(host_executor::ClockSeconds()));
  });
  AsEvent(event).point = host_executor::PointOf(stream);
}

void WaitForEvent(const Device&, void* event) { host_executor::Finish(AsEvent(event).stream); }

bool HasPassed(const Device&, void* event) {
  return host_executor::HasPassed(AsEvent(event).point);
}

void MakeWait(const Device&, void* stream, void* event) {
  host_executor::SubmitStep(
      stream, [point = AsEvent(event).point] { return host_executor::HasPassed(point); });
}

double SecondsBetween(const Device& device, void* start, void* end) {
  WaitForEvent(device, end);
  return std::chrono::duration<double>(*AsEvent(end).time - *AsEvent(start).time).count();
}

}  // namespace dtrain::cuda
