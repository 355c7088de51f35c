// runtime.h - what a program runs on: ranks, device, threads, and the requests of the world.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_RUNTIME_H_
#define DTRAIN_LAUNCH_RUNTIME_H_

#include <functional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/stop_flags.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"

namespace dtrain {

// Made by Main() and by RunOnRanks(); everything it refers to outlives the program's body.
struct Runtime {
  Communicator& comm;
  Device device;
  int threads = 1;                     // compute threads of this rank
  std::string mpi;                     // "Open MPI v4.1.4", or "none"
  std::vector<std::string> arguments;  // the command line, program first
  // Advice printed when memory runs out, for example "use trainer.recompute=full". Optional; a
  // program sets it from its memory plan (tasks/shared/memory_plan.h).
  std::function<std::string()> memory_remedies = {};

  // Requests by signals, for a TrainLoop or a Trainer. From the first call on, TERM, INT and HUP
  // ask to stop and no longer end the process.
  StopFlags& StopRequests() const;
  // From now on every log line of this rank also goes to directory/logs/rank-NNNNN.log (appended,
  // with UTC time and level). StorageError where that file cannot be opened.
  Status OpenLog(const std::string& directory) const;
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_RUNTIME_H_
