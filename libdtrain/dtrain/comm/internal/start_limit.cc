// start_limit.cc - waits for MPI in a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/start_limit.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/host.h"
#include "dtrain/base/log.h"
#include "dtrain/base/status.h"
#include "dtrain/comm/internal/job_hosts.h"
#include "dtrain/comm/internal/network_choice.h"
#include "dtrain/comm/internal/network_interfaces.h"
#include "dtrain/comm/internal/reach.h"

namespace dtrain::internal {
namespace {

constexpr double kDiagnoseAfter = 20;
constexpr double kReachSeconds = 4;

}  // namespace

StartLimit::StartLimit(double seconds, std::function<std::string()> diagnose)
    : seconds_(seconds), diagnose_(std::move(diagnose)), thread_([this] { Watch(); }) {}

StartLimit::~StartLimit() {
  {
    const std::lock_guard lock(mutex_);
    is_up_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool StartLimit::IsUpWithin(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return is_up_; });
}

void StartLimit::Watch() {
  const double first = std::min(kDiagnoseAfter, seconds_ / 2);
  if (IsUpWithin(first)) return;
  const std::string reason = diagnose_();
  if (!reason.empty() && !IsUpWithin(0)) {
    LogWarning(
        absl::StrFormat("host %s: MPI has not started after %g s: %s", HostName(), first, reason));
  }
  if (IsUpWithin(seconds_ - first)) return;
  std::fprintf(
      stderr,
      "dtrain: error[E6]: host %s: MPI has not started within %g s: a rank of this job is "
      "stopped, was never started or cannot be reached; %s. DTRAIN_COMM_TIMEOUT sets the limit in "
      "seconds (see docs/errors.md#e6)\n",
      HostName().c_str(), seconds_,
      reason.empty() ? "look at its processes on each host" : reason.c_str());
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(ExitCode::kCommunication));
}

std::string DiagnoseStart(std::string_view mpi_version) {
  const GetEnv get_env = [](const char* name) -> const char* { return std::getenv(name); };
  const std::vector<std::string> hosts = JobHosts(get_env, ParentCommand());
  const std::string problems = DescribeProblems(TryHosts(
      hosts, HostName(),
      {.seconds = kReachSeconds, .port = PortOfRanks(get_env), .advice = PortAdvice(mpi_version)}));
  if (hosts.size() < 2) return problems;
  return absl::StrCat(problems, problems.empty() ? "" : "; ",
                      "networks here: ", DescribeInterfaces(ListNetworkInterfaces()), " (",
                      InterfaceVariable(mpi_version), "=NAME chooses one)");
}

}  // namespace dtrain::internal
