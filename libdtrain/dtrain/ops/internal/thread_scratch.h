// thread_scratch.h - memory of a compute thread for what an op needs while it runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_THREAD_SCRATCH_H_
#define DTRAIN_OPS_INTERNAL_THREAD_SCRATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain {

inline constexpr size_t kScratchSlots = 4;

// At least `count` elements, which only grow and stay until the thread ends; what they hold is
// anybody's. `slot` < kScratchSlots names one of the buffers in use together. They start on a page:
// rows of 64 bytes that cross lines of the cache halve the speed of a matrix unit.
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
    pages.clear();  // nothing to copy
    pages.resize(wanted);
  }
  return reinterpret_cast<T*>(pages.data());
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_THREAD_SCRATCH_H_
