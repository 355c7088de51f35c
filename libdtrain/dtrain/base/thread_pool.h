// thread_pool.h - the pool of compute threads (OpenMP), shared with oneDNN.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_THREAD_POOL_H_
#define DTRAIN_BASE_THREAD_POOL_H_

#include <cstdint>
#include <functional>

namespace dtrain {

// Number of compute threads that parallel loops of the calling thread use, at least 1. Each calling
// thread has its own number, so that ranks that are threads of one process can differ.
int NumThreads();
void SetNumThreads(int count);

// Restarts the program once, with the same arguments and GOMP_SPINCOUNT set, so that idle threads
// of the pool sleep after a short while instead of spinning. Spinning on a core that another
// process needs slows down both. A restart is necessary because the OpenMP runtime reads its
// environment before main(). main() must call this function first. It does nothing if the user set
// OMP_WAIT_POLICY or GOMP_SPINCOUNT, or if the process already has other threads (for example
// MPI's), which a restart would end.
void ReexecWithPassiveWaiting();

// Calls body(begin, end) in parallel on contiguous, disjoint ranges that cover [0, count). The
// ranges depend only on count, grain and NumThreads(), so results do not change from run to run.
// Each range holds at least `grain` items unless count is smaller; below 2 * grain items everything
// runs on the calling thread. Exceptions thrown by `body` are rethrown here.
void ParallelFor(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace dtrain

#endif  // DTRAIN_BASE_THREAD_POOL_H_
