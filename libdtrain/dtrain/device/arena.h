// arena.h - memory of one device, reserved once and handed out without asking the system again.
// SPDX-License-Identifier: Apache-2.0
//
// A first-fit free list. A training step frees what it took, so the same sequence of requests gives
// the same addresses in every step and nothing is allocated from the system after the first. On the
// CPU one reservation of address space holds it all; pages become memory when first touched, so
// peak() is what the process pays. A GPU's memory is taken in slabs as it is first needed, or as on
// the CPU where the arena is made to grow: sizes that change from step to step would leave slabs
// that nothing fits into any more.
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

// Where an arena on a GPU takes its memory; on the CPU they are the same.
enum class ArenaMemory {
  kDevice,
  kGrowing,  // the device's, in one piece; as kDevice where the GPU or its driver cannot
  kPinned    // of the host, read and written by both at the same address
};

// A GPU is full. what() says which arena asked for how much and what all of them hold.
class DeviceMemoryError : public std::bad_alloc {
 public:
  explicit DeviceMemoryError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

class Arena : public std::enable_shared_from_this<Arena> {
 public:
  // Every block starts at a multiple of this many bytes: a cache line pair, a page of TMA
  // alignment.
  static constexpr size_t kAlignment = 128;
  // Bytes after each block: on the CPU readable and writable, as vector tails overrun; else not.
  static constexpr size_t kPadding = 64;
  static constexpr size_t kDefaultCapacity = size_t{1} << 40;

  // Holds at most `capacity` bytes on `device`, kGrowing what the GPU has; throws std::bad_alloc
  // where the CPU cannot reserve them. `role` names the arena in messages ("activations").
  static std::shared_ptr<Arena> Create(const Device& device, std::string role,
                                       size_t capacity = kDefaultCapacity,
                                       ArenaMemory memory = ArenaMemory::kDevice);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // A block of at least `bytes`, contents undefined, freed when the last owner lets go; the block
  // keeps the arena alive. Throws std::bad_alloc when the arena is full, DeviceMemoryError when
  // the GPU is. One thread at a time.
  std::shared_ptr<std::byte> Allocate(size_t bytes);

  // What a request of `bytes` takes of the arena.
  static constexpr size_t BlockBytes(size_t bytes) {
    return (bytes + kPadding + kAlignment - 1) / kAlignment * kAlignment;
  }

  size_t used() const { return used_; }
  // Where it is the same as before, the same requests get the same addresses as then.
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
  // Takes memory for a request of that many bytes from the device.
  void AddSlab(size_t bytes);
  // Memory behind all addresses of space_ below `end`, for a request of that many bytes.
  void GrowTo(const std::byte* end, size_t bytes);
  void Free(std::byte* begin, size_t bytes);

  Device device_;
  std::string role_;
  size_t capacity_;
  ArenaMemory memory_;
  std::vector<Slab> slabs_;                    // the CPU's reservation, or a GPU's allocations
  size_t reserved_ = 0;                        // bytes of all slabs
  std::shared_ptr<cuda::AddressSpace> space_;  // in place of slabs, where kGrowing
  std::map<std::byte*, size_t> free_;          // start -> bytes, neighbours merged
  size_t used_ = 0;
  size_t peak_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_ARENA_H_
