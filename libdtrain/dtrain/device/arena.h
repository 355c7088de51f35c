// arena.h - one device's memory, reserved once and handed out without asking the system again.
// SPDX-License-Identifier: Apache-2.0
//
// An arena is a first-fit free list. A training step frees all it allocated, so the same sequence
// of requests gets the same addresses in every step, and only the first step asks the system for
// memory.
//
// On the CPU, one reservation of address space covers the whole arena. Pages become memory when
// first touched, so peak() is the memory the process really uses.
//
// On a GPU, memory is allocated in slabs as needed. Request sizes that change from step to step
// would leave slabs too small for any later request; use ArenaMemory::kGrowing for those.
#ifndef DTRAIN_DEVICE_ARENA_H_
#define DTRAIN_DEVICE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/device/device.h"

namespace dtrain {

namespace cuda {
class AddressSpace;
}  // namespace cuda

// The kind of memory an arena on a GPU uses. On the CPU all three are the same.
enum class ArenaMemory {
  kDevice,
  kGrowing,  // device memory in one growing piece; like kDevice if the GPU or driver cannot do this
  kPinned    // pinned host memory, which host and GPU read and write at the same address
};

// A GPU has no memory left. what() names the arena, the requested bytes and the memory of all
// arenas.
class DeviceMemoryError : public std::bad_alloc {
 public:
  explicit DeviceMemoryError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

class Arena : public std::enable_shared_from_this<Arena> {
 public:
  // Every block starts at a multiple of this many bytes: two cache lines, and enough for TMA.
  static constexpr size_t kAlignment = 128;
  // Bytes after each block. On the CPU they may be read and written, because vector tails overrun.
  static constexpr size_t kPadding = 64;
  static constexpr size_t kDefaultCapacity = size_t{1} << 40;

  // Makes an arena of at most `capacity` bytes on `device`; kGrowing is limited by the GPU's memory
  // instead. Throws std::bad_alloc if the CPU's address space cannot be reserved. `role` names the
  // arena in messages ("activations").
  static std::shared_ptr<Arena> Create(const Device& device, std::string role,
                                       size_t capacity = kDefaultCapacity,
                                       ArenaMemory memory = ArenaMemory::kDevice);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Allocates a block of at least `bytes` with undefined contents. It is freed when its last owner
  // releases it, and it keeps the arena alive. Throws std::bad_alloc if the arena is full,
  // DeviceMemoryError if the GPU is. Only one thread at a time may call it.
  std::shared_ptr<std::byte> Allocate(size_t bytes);

  // Number of arena bytes that a request of `bytes` occupies.
  static constexpr size_t BlockBytes(size_t bytes) {
    return (bytes + kPadding + kAlignment - 1) / kAlignment * kAlignment;
  }

  size_t used() const { return used_; }
  // A hash of the free memory. If it has the same value as before, the same requests get the same
  // addresses as before.
  uint64_t Layout() const;
  size_t peak() const { return peak_; }
  void ResetPeak() { peak_ = used_; }
  const Device& device() const { return device_; }
  const std::string& role() const { return role_; }

 private:
  struct Slab {
    std::byte* base = nullptr;
    size_t bytes = 0;
  };

  Arena(const Device& device, std::string role, size_t capacity, ArenaMemory memory);
  // Allocates a slab from the device for a request of `bytes`.
  void AddSlab(size_t bytes);
  // Maps memory to all addresses of space_ below `end`, for a request of `bytes`.
  void GrowTo(const std::byte* end, size_t bytes);
  void Free(std::byte* begin, size_t bytes);

  Device device_;
  std::string role_;
  size_t capacity_;
  ArenaMemory memory_;
  std::vector<Slab> slabs_;                    // the CPU's reservation, or a GPU's allocations
  size_t reserved_ = 0;                        // bytes of all slabs
  std::shared_ptr<cuda::AddressSpace> space_;  // used instead of slabs for kGrowing
  std::map<std::byte*, size_t> free_;          // start -> bytes; neighbouring blocks are merged
  size_t used_ = 0;
  size_t peak_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_ARENA_H_
