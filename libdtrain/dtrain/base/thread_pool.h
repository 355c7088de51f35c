// thread_pool.h - the one pool of compute threads, shared with oneDNN (OpenMP).
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_THREAD_POOL_H_
#define DTRAIN_BASE_THREAD_POOL_H_

#include <cstdint>
#include <functional>

namespace dtrain {

// Compute threads this thread's parallel loops use, at least 1. Per calling thread, so that ranks
// that are threads of one process can each have one.
int NumThreads();
void SetNumThreads(int count);

// Makes threads of the pool that wait sleep after a short while instead of spinning on, which on a
// core that another process needs costs both of them dearly. The OpenMP runtime reads its
// environment before main(), so this restarts the program once, with the same arguments and
// GOMP_SPINCOUNT set; a main() calls it before anything else. Does nothing where the user set
// OMP_WAIT_POLICY or GOMP_SPINCOUNT, nor where the process has other threads already, MPI's for
// one, which a restart would end.
void LetWaitingThreadsSleep();

// Calls body(begin, end) on disjoint ranges that cover [0, count), in parallel. Ranges are
// contiguous and depend only on (count, grain, NumThreads()), so results do not change from run to
// run. A range holds at least `grain` items, unless count is smaller; below 2 x grain items no
// thread is woken. An exception of `body` is rethrown here.
void ParallelFor(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace dtrain

#endif  // DTRAIN_BASE_THREAD_POOL_H_
