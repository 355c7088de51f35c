// launcher_connections.h - how soon a job's launcher notices that the cable to a host was cut.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_PLANNING_LAUNCHER_CONNECTIONS_H_
#define DTRAIN_TOOLS_DTRAIN_PLANNING_LAUNCHER_CONNECTIONS_H_

#include <sys/types.h>

#include <optional>
#include <string>

namespace dtrain {

// Returns the seconds until the next keep-alive probe of the process's TCP connections to other
// hosts, the longest of them, infinity for a connection without probes. The kernel says them in
// /proc/PID/net/tcp, so this holds for any launcher and however it was configured. Returns nullopt
// for a process without connections to other hosts, or one that may not be looked at.
std::optional<double> SecondsToKeepAlive(pid_t launcher, const std::string& proc = "/proc");

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_PLANNING_LAUNCHER_CONNECTIONS_H_
