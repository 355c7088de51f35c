// network_setup.cc - the first rank of a host surveys the networks, the others ask it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/network_setup.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/host.h"
#include "dtrain/base/log.h"
#include "dtrain/comm/internal/job_hosts.h"
#include "dtrain/comm/internal/network_agreement.h"
#include "dtrain/comm/internal/network_choice.h"
#include "dtrain/comm/internal/network_interfaces.h"

namespace dtrain::internal {
namespace {

// Every host asks every other one.
constexpr size_t kMostSurveyed = 64;
constexpr double kChoiceSeconds = 5;

void SetVariables(const NetworkChoice& choice) {
  for (const auto& [name, value] : choice.variables) {
    setenv(name.c_str(), value.c_str(), /*replace=*/0);
  }
}

// What the first rank of this host found out holds for all of its ranks.
void TakeChoice(const std::vector<std::string>& used, std::vector<NetworkInterface>& interfaces) {
  for (NetworkInterface& interface : interfaces) {
    if (std::count(used.begin(), used.end(), interface.name) > 0) {
      interface.obstacle.clear();
    } else if (interface.obstacle.empty()) {
      interface.obstacle = "left out by the first rank of this host";
    }
  }
}

bool IsFirstRank(const GetEnv& get_env) {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
    if (const char* const rank = get_env(name); rank != nullptr) {
      return rank == std::string_view("0");
    }
  }
  return false;
}

void TakeFindings(const NetworkFindings& findings, const GetEnv& get_env,
                  std::vector<NetworkInterface>& interfaces) {
  const std::string before = DescribeInterfaces(interfaces);
  ApplyFindings(findings, interfaces);
  const std::string after = DescribeInterfaces(interfaces);
  const bool is_users = ChooseNetwork(interfaces, get_env).is_users;
  if (after != before && !is_users && IsFirstRank(get_env)) {
    LogInfo(absl::StrCat("networks of host ", HostName(), ": ", after));
  }
  const std::vector<NetworkInterface> none;
  for (const std::string& sentence :
       DescribeLostPackets(findings, HostName(), is_users ? none : interfaces)) {
    LogWarning(sentence);
  }
}

}  // namespace

std::unique_ptr<NetworkSurvey> SetUpNetwork(const Launch& launch, const std::string& mpi_version) {
  const GetEnv get_env = [](const char* name) -> const char* { return std::getenv(name); };
  if (launch.size > 0 && launch.local_size >= launch.size) {
    SetVariables(ChooseSharedMemory(mpi_version, get_env));
    return nullptr;
  }
  std::vector<NetworkInterface> interfaces = ListNetworkInterfaces();
  std::vector<std::string> hosts = JobHosts(get_env, ParentCommand());
  if (hosts.size() > kMostSurveyed) hosts.clear();
  const std::string job = JobName(get_env);
  const uint16_t port = SurveyPort(job, get_env);
  // Open MPI 5 and MPICH say the hosts where mpirun runs, and nowhere else.
  const bool has_others = launch.size > launch.local_size;
  std::unique_ptr<NetworkSurvey> survey;
  if (!job.empty() && launch.local_rank == 0) {
    survey = NetworkSurvey::Start({.job = job,
                                   .self = HostName(),
                                   .hosts = hosts,
                                   .has_others = has_others,
                                   .interfaces = interfaces,
                                   .port = port});
  }
  if (survey && survey->is_open()) {
    TakeFindings(survey->Wait(), get_env, interfaces);
    survey->Publish(interfaces);
  } else if (!job.empty() && (hosts.size() > 1 || has_others)) {
    // srun does not tell the ranks of a host apart: the first one has the port.
    if (const auto used = AskChoice(job, port, kChoiceSeconds)) TakeChoice(*used, interfaces);
  }
  SetVariables(ChooseNetwork(interfaces, get_env));
  return survey;
}

}  // namespace dtrain::internal
