// doctor_hosts.cc - tries the hosts from here, and reads what mpirun has started below /proc.
// SPDX-License-Identifier: Apache-2.0
#include "planning/doctor_hosts.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/host.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/job_hosts.h"
#include "dtrain/comm/internal/network_interfaces.h"
#include "dtrain/comm/internal/reach.h"

namespace dtrain {
namespace {

const char* Variable(const char* name) { return std::getenv(name); }

std::vector<internal::HostReach> Try(const std::vector<std::string>& hosts) {
  return internal::TryHosts(
      hosts, HostName(),
      {.port = internal::PortOfRanks(Variable), .advice = internal::PortAdvice("Open MPI")});
}

bool IsAlive(pid_t process) { return ::kill(process, 0) == 0 || errno == EPERM; }

// True if a process has children other than those that reach other hosts.
bool HasStartedRanks(pid_t launcher) {
  std::ifstream children(absl::StrCat("/proc/", launcher, "/task/", launcher, "/children"));
  for (pid_t child = 0; children >> child;) {
    std::string name;
    std::ifstream(absl::StrCat("/proc/", child, "/comm")) >> name;
    if (!name.empty() && name != "ssh" && name != "rsh") return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> HostsIn(std::string_view list) {
  std::vector<std::string> hosts;
  for (const absl::string_view item : absl::StrSplit(ToAbsl(list), ',', absl::SkipEmpty())) {
    const size_t colon = item.find(':');
    // An address of IPv6 has many colons.
    const bool has_slots = colon != absl::string_view::npos && item.rfind(':') == colon;
    hosts.emplace_back(item.substr(0, has_slots ? colon : item.size()));
  }
  return hosts;
}

Status ExamineHosts(const std::vector<std::string>& hosts) {
  const std::vector<internal::HostReach> reach = Try(hosts);
  if (reach.empty()) {
    return UsageError("--hosts names no host but this one; name all hosts of the job: --hosts=a,b");
  }
  std::printf("networks of host %s: %s\n\n%-16s %-24s %-24s\n", HostName().c_str(),
              internal::DescribeInterfaces(internal::ListNetworkInterfaces()).c_str(), "host",
              "address", "reached through");
  for (const internal::HostReach& host : reach) {
    std::printf("%-16s %-24s %-24s\n", host.host.c_str(), host.address.c_str(),
                host.problem.empty() ? absl::StrCat(host.interface, " ", host.local).c_str()
                                     : "not reached");
  }
  std::fflush(stdout);
  const std::string problems = internal::DescribeProblems(reach);
  return problems.empty() ? OkStatus() : CommunicationError(problems);
}

void WatchLaunch(pid_t launcher, double seconds) {
  const Timer timer;
  while (timer.Seconds() < seconds) {
    if (!IsAlive(launcher) || HasStartedRanks(launcher)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::string problems =
      internal::DescribeProblems(Try(internal::JobHosts(Variable, internal::CommandOf(launcher))));
  if (problems.empty() || !IsAlive(launcher) || HasStartedRanks(launcher)) return;
  LogWarning(absl::StrFormat("host %s: mpirun has started no rank after %g s: %s", HostName(),
                             seconds, problems));
}

}  // namespace dtrain
