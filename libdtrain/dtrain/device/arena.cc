// arena.cc - first-fit allocation inside a CPU reservation or GPU slabs.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/cuda/address_space.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/internal/guard.h"
#include "dtrain/device/internal/held_memory.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {
namespace {

// Reserves address space without memory. Hosts that limit address space (ulimit -v, strict
// overcommit) give the largest power of two they allow, which is returned in `capacity`.
std::byte* ReserveHostMemory(size_t& capacity) {
  constexpr size_t kSmallest = size_t{1} << 28;
  for (; capacity >= kSmallest; capacity /= 2) {
    void* const base = mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base != MAP_FAILED) {
      madvise(base, capacity, MADV_HUGEPAGE);
      return static_cast<std::byte*>(base);
    }
  }
  throw std::bad_alloc();
}

}  // namespace

std::shared_ptr<Arena> Arena::Create(const Device& device, std::string role, size_t capacity,
                                     ArenaMemory memory) {
  return std::shared_ptr<Arena>(new Arena(device, std::move(role), capacity, memory));
}

Arena::Arena(const Device& device, std::string role, size_t capacity, ArenaMemory memory)
    : device_(device), role_(std::move(role)), capacity_(capacity), memory_(memory) {
  DT_CHECK(kWithCuda || device.type == DeviceType::kCpu) << "this build has no CUDA device";
  if constexpr (kWithCuda) {
    if (device.type == DeviceType::kCuda) {
      if (memory == ArenaMemory::kGrowing) {
        // More addresses than the GPU has memory, because freed blocks leave gaps between used
        // ones.
        space_ = cuda::AddressSpace::Reserve(device, 4 * cuda::Properties(device).total_bytes);
      }
      if (space_ != nullptr) free_.emplace(space_->base(), space_->bytes());
      return;
    }
  }
  std::byte* const base = ReserveHostMemory(capacity_);
  slabs_.push_back({base, capacity_});
  reserved_ = capacity_;
  free_.emplace(base, capacity_);
}

Arena::~Arena() {
  if constexpr (kWithCuda) {
    if (device_.type == DeviceType::kCuda) {
      if (space_ != nullptr) internal::GiveSpace(device_, role_, std::move(space_));
      for (const Slab& slab : slabs_) {
        internal::GiveMemory(device_, role_, slab.base, slab.bytes, memory_);
      }
      return;
    }
  }
  for (const Slab& slab : slabs_) munmap(slab.base, slab.bytes);
}

void Arena::AddSlab(size_t bytes) {
  if constexpr (kWithCuda) {
    constexpr size_t kSmallest = size_t{64} << 20;
    // The last bytes stay unused, so that slabs that happen to be neighbours never merge.
    const size_t size = std::max(bytes, kSmallest) + kAlignment;
    if (device_.type == DeviceType::kCpu || space_ != nullptr || reserved_ + size > capacity_)
      throw std::bad_alloc();
    void* const base = internal::TakeMemory(device_, role_, size, bytes, memory_);
    slabs_.push_back({static_cast<std::byte*>(base), size});
    reserved_ += size;
    free_.emplace(slabs_.back().base, size - kAlignment);
  } else {
    throw std::bad_alloc();
  }
}

void Arena::GrowTo([[maybe_unused]] const std::byte* end, [[maybe_unused]] size_t bytes) {
  if constexpr (kWithCuda) {
    if (space_ == nullptr) return;
    constexpr size_t kPiece = cuda::AddressSpace::kPieceBytes;
    const auto needed = static_cast<size_t>(end - space_->base());
    if (needed <= space_->backed()) return;
    const size_t more = (needed - space_->backed() + kPiece - 1) / kPiece * kPiece;
    internal::GrowSpace(device_, role_, *space_, more, bytes);
  }
}

std::shared_ptr<std::byte> Arena::Allocate(size_t bytes) {
  const size_t size = BlockBytes(bytes);
  const auto find = [&] {
    return std::find_if(free_.begin(), free_.end(),
                        [&](const auto& entry) { return entry.second >= size; });
  };
  auto block = find();
  if (block == free_.end()) {
    AddSlab(size);
    block = find();
  }
  const auto [begin, available] = *block;
  GrowTo(begin + size, size);
  free_.erase(block);
  if (available > size) free_.emplace(begin + size, available - size);
  used_ += size;
  peak_ = std::max(peak_, used_);
  // Only on the CPU may vector tails overrun. Freed blocks stay accessible, because recorded or
  // pending GPU work still uses them.
  if (device_.type == DeviceType::kCuda) Forbid(begin + bytes, size - bytes);
  return {begin,
          [arena = shared_from_this(), size](std::byte* start) { arena->Free(start, size); }};
}

uint64_t Arena::Layout() const {
  // FNV-1a hash over all free blocks.
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  for (const auto& [begin, bytes] : free_) {
    add(reinterpret_cast<uintptr_t>(begin));
    add(bytes);
  }
  return hash;
}

void Arena::Free(std::byte* begin, size_t bytes) {
  Permit(begin, bytes);
  used_ -= bytes;
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && begin + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == begin) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(begin, bytes);
}

}  // namespace dtrain
