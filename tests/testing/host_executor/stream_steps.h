// stream_steps.h - work of emulated streams that waits for something, and points in it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_STREAM_STEPS_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_STREAM_STEPS_H_

#include <cstdint>
#include <functional>

namespace dtrain::host_executor {

// Work that waits for another stream or another rank: it is tried again until it gives true, and
// what was issued behind it waits too, whatever the mode of streams.h. CudaError while recording.
using Step = std::function<bool()>;
void SubmitStep(void* stream, Step step);

// A point in a stream's work: behind what was issued so far.
struct StreamPoint {
  int64_t stream = 0;  // 0: of none
  int64_t issued = 0;
};
StreamPoint PointOf(void* stream);
// Runs what comes before it as far as that goes; whether all of it has run.
bool HasPassed(const StreamPoint& point);

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_STREAM_STEPS_H_
