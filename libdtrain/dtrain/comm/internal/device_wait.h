// device_wait.h - waits for a GPU without blocking, and ends the wait if the job has failed.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_DEVICE_WAIT_H_
#define DTRAIN_COMM_INTERNAL_DEVICE_WAIT_H_

#include <functional>
#include <string>

#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

// The answer of a step of a wait.
enum class WaitStep { kDone, kMoved, kNothing };

// Calls step() until it returns kDone, and `comm`.Poll() between the calls. Returns false if step()
// returned nothing but kNothing for `limit` seconds, and warns earlier; describe(seconds) gives the
// text. is_watched: if heartbeats arrive, the watchdog decides instead of the limit. Throws
// CommError if the watchdog has judged the job to have failed.
bool AwaitDevice(Communicator& comm, const std::function<WaitStep()>& step, double limit,
                 const std::function<std::string(double)>& describe, bool is_watched);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_DEVICE_WAIT_H_
