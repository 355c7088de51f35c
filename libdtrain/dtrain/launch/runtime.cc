// runtime.cc - the log file of one rank.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/host.h"
#include "dtrain/base/log.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/launch/signals.h"
#include "dtrain/runs/run_directory.h"

namespace dtrain {

StopFlags& Runtime::StopRequests() const { return TakeStopRequests(); }

Status Runtime::OpenLog(const std::string& directory) const {
  const LogSink terminal = SetLogSink(nullptr);
  StatusOr<LogSink> log = OpenRankLog(directory, comm.rank(), terminal);
  if (!log.ok()) {
    SetLogSink(terminal);
    return log.status();
  }
  SetLogSink(*std::move(log));
  LogInfo(absl::StrFormat("rank %d of %d on host %s, process %d, %d thread%s", comm.rank(),
                          comm.size(), HostName(), ::getpid(), threads, threads == 1 ? "" : "s"));
  return OkStatus();
}

}  // namespace dtrain
