// race_detector.h - whether two accesses of a launch to the same bytes have an order.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels compiled with -fsanitize=thread call race_runtime.cc at every access, which asks here.
// Two accesses by different threads, at least one of them a write, need a barrier between them or,
// within one warp, a warp operation. Between blocks there is no order; launches follow each other.
// A thread's own stack is not looked at. All state belongs to the OS thread.
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_RACE_DETECTOR_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_RACE_DETECTOR_H_

#include <cstddef>
#include <string>

#include "testing/host_executor/fiber.h"
#include "testing/host_executor/shared_memory.h"

namespace dtrain::host_executor::race {

// False for good until instrumented code is loaded: then there is nothing to compare.
inline constinit bool enabled = false;
// While a kernel's own code runs, not the executor's.
inline constinit thread_local bool observing = false;

// The course of a launch.
void StartLaunch();
void StartBlock(const SharedMemory* shared);
void StartThread(int index, const Fiber* fiber);
void PassBarrier();
void PassWarpOperation(int warp);

// Records the current thread's access. False if it has no order to an earlier one, or touches
// shared memory outside of its objects: then LastRace() says what it met.
bool Access(const void* address, size_t bytes, bool is_write);
std::string LastRace();

}  // namespace dtrain::host_executor::race

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_RACE_DETECTOR_H_
