// arena.cc - first-fit allocation inside one reservation.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "dtrain/base/check.h"

namespace dtrain {
namespace {

size_t RoundUp(size_t bytes) {
  return (bytes + Arena::kPadding + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

// Address space without memory behind it. Hosts that limit address space (ulimit -v, strict
// overcommit) get the largest power of two they allow.
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

std::shared_ptr<Arena> Arena::Create(const Device& device, std::string role, size_t capacity) {
  return std::shared_ptr<Arena>(new Arena(device, std::move(role), capacity));
}

Arena::Arena(const Device& device, std::string role, size_t capacity)
    : device_(device), role_(std::move(role)), capacity_(capacity) {
  DT_CHECK(device.type == DeviceType::kCpu) << "this build has no CUDA device";
  base_ = ReserveHostMemory(capacity_);
  free_.emplace(0, capacity_);
}

Arena::~Arena() { munmap(base_, capacity_); }

std::shared_ptr<std::byte> Arena::Allocate(size_t bytes) {
  const size_t size = RoundUp(bytes);
  const auto block = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& entry) { return entry.second >= size; });
  if (block == free_.end()) throw std::bad_alloc();
  const auto [offset, available] = *block;
  free_.erase(block);
  if (available > size) free_.emplace(offset + size, available - size);
  used_ += size;
  peak_ = std::max(peak_, used_);
  return {base_ + offset, [arena = shared_from_this(), offset = offset, size](std::byte*) {
            arena->Free(offset, size);
          }};
}

void Arena::Free(size_t offset, size_t bytes) {
  used_ -= bytes;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

}  // namespace dtrain
