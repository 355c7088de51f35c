// parallel_parts.h - runs a fixed number of parts in parallel, one thread for each.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_PARALLEL_PARTS_H_
#define DTRAIN_DATA_INTERNAL_PARALLEL_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "dtrain/base/thread_pool.h"

namespace dtrain::internal {

// Sets the calling thread's NumThreads() until the end of the scope.
class ScopedNumThreads {
 public:
  explicit ScopedNumThreads(int count) : before_(NumThreads()) { SetNumThreads(count); }
  ScopedNumThreads(const ScopedNumThreads&) = delete;
  ScopedNumThreads& operator=(const ScopedNumThreads&) = delete;
  ~ScopedNumThreads() { SetNumThreads(before_); }

 private:
  int before_;
};

// Calls body(0) to body(num_parts - 1), each on its own thread, so that the state of a part needs
// no lock.
inline void ForEachPart(size_t num_parts, const std::function<void(size_t)>& body) {
  const ScopedNumThreads threads(static_cast<int>(std::max<size_t>(num_parts, 1)));
  ParallelFor(static_cast<int64_t>(num_parts), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(static_cast<size_t>(i));
  });
}

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_PARALLEL_PARTS_H_
