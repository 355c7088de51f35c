// thread_scratch.h - scratch memory of a compute thread, for use while an op runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_THREAD_SCRATCH_H_
#define DTRAIN_OPS_INTERNAL_THREAD_SCRATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain {

inline constexpr size_t kScratchSlots = 4;

// Returns at least `count` elements with undefined contents. The memory only grows and stays until
// the thread ends. `slot` < kScratchSlots selects one of several buffers that can be used together.
// Buffers start on a page boundary: 64-byte rows that cross cache lines would halve AMX's speed.
template <typename T>
T* ThreadScratch(size_t slot, int64_t count);

namespace internal {

struct alignas(4096) ScratchPage {
  std::byte bytes[4096];
};

inline std::vector<ScratchPage>& ScratchPages(size_t slot) {
  thread_local std::array<std::vector<ScratchPage>, kScratchSlots> buffers;
  return buffers[slot];
}

}  // namespace internal

template <typename T>
T* ThreadScratch(size_t slot, int64_t count) {
  std::vector<internal::ScratchPage>& pages = internal::ScratchPages(slot);
  const size_t wanted = static_cast<size_t>(count) * sizeof(T) / sizeof(internal::ScratchPage) + 1;
  if (pages.size() < wanted) {
    pages.clear();  // avoids copying the old contents
    pages.resize(wanted);
  }
  return reinterpret_cast<T*>(pages.data());
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_THREAD_SCRATCH_H_
