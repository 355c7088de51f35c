// doctor_hosts.cc - tries the hosts from here, and reads what mpirun has started below /proc.
// SPDX-License-Identifier: Apache-2.0
#include "planning/doctor_hosts.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
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

namespace fs = std::filesystem;

const char* Variable(const char* name) { return std::getenv(name); }

std::vector<internal::HostReach> Try(const std::vector<std::string>& hosts) {
  return internal::TryHosts(
      hosts, HostName(),
      {.port = internal::PortOfRanks(Variable), .advice = internal::PortAdvice("Open MPI")});
}

bool IsAlive(pid_t process) { return ::kill(process, 0) == 0 || errno == EPERM; }

// The names that the kernel has for programs by which mpirun reaches other hosts.
std::vector<std::string> Agents() {
  constexpr size_t kLongestName = 15;
  std::vector<std::string> names = {"ssh", "rsh"};
  for (const char* const variable : {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"}) {
    const char* const command = std::getenv(variable);
    if (command == nullptr) continue;
    const std::string program = std::string(command).substr(0, std::string(command).find(' '));
    names.push_back(fs::path(program).filename().string().substr(0, kLongestName));
  }
  return names;
}

// True if a process has children other than those that reach other hosts. A child that still runs
// its parent's program is about to become one or the other.
bool HasStartedRanks(pid_t launcher) {
  const std::vector<std::string> agents = Agents();
  std::error_code error;
  const fs::path program = fs::read_symlink(absl::StrCat("/proc/", launcher, "/exe"), error);
  std::ifstream children(absl::StrCat("/proc/", launcher, "/task/", launcher, "/children"));
  for (pid_t child = 0; children >> child;) {
    std::string name;
    std::ifstream(absl::StrCat("/proc/", child, "/comm")) >> name;
    const bool is_agent = std::count(agents.begin(), agents.end(), name) > 0;
    const fs::path its_program = fs::read_symlink(absl::StrCat("/proc/", child, "/exe"), error);
    if (!error && !is_agent && its_program != program) return true;
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
