// network_choice.cc - which interfaces are left out, and how MPI and NCCL are told.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/network_choice.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dtrain::internal {
namespace {

// What Open MPI leaves out by itself: a value of our own replaces it.
constexpr const char* kLeftOutByDefault = "127.0.0.1/8,sppp";

std::string TextOf(const char* value) { return value == nullptr ? "" : value; }

// Whether a configuration file of lines "NAME = VALUE" has one of the names.
bool FileSets(const std::string& path, std::initializer_list<std::string_view> names) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const absl::string_view name =
        absl::StripAsciiWhitespace(absl::string_view(line).substr(0, equals));
    if (std::count(names.begin(), names.end(), std::string_view(name.data(), name.size())) > 0) {
      return true;
    }
  }
  return false;
}

bool UserChoseForOpenMpi(const GetEnv& get_env) {
  for (const char* const name : {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude"}) {
    if (get_env(name) != nullptr) return true;
  }
  const std::string home = TextOf(get_env("HOME"));
  const std::string prefix = TextOf(get_env("OPAL_PREFIX"));
  for (const std::string& path :
       {home + "/.openmpi/mca-params.conf", std::string("/etc/openmpi/openmpi-mca-params.conf"),
        prefix + "/etc/openmpi-mca-params.conf"}) {
    if (FileSets(path, {"btl_tcp_if_include", "btl_tcp_if_exclude"})) return true;
  }
  return false;
}

bool UserChoseForNccl(const GetEnv& get_env) {
  return get_env("NCCL_SOCKET_IFNAME") != nullptr ||
         FileSets(TextOf(get_env("HOME")) + "/.nccl.conf", {"NCCL_SOCKET_IFNAME"}) ||
         FileSets("/etc/nccl.conf", {"NCCL_SOCKET_IFNAME"});
}

}  // namespace

NetworkChoice ChooseNetwork(const std::vector<NetworkInterface>& interfaces,
                            const GetEnv& get_env) {
  NetworkChoice choice;
  choice.is_users = UserChoseForOpenMpi(get_env);
  std::vector<std::string> left_out;
  for (const NetworkInterface& interface : interfaces) {
    if (!interface.obstacle.empty()) left_out.push_back(interface.name);
  }
  if (left_out.empty() || left_out.size() == interfaces.size()) return choice;
  const std::string names = absl::StrJoin(left_out, ",");
  if (!choice.is_users) {
    choice.variables.emplace_back("OMPI_MCA_btl_tcp_if_exclude",
                                  absl::StrCat(kLeftOutByDefault, ",", names));
  }
  if (!UserChoseForNccl(get_env)) {
    // "^=": all but exactly these names.
    choice.variables.emplace_back("NCCL_SOCKET_IFNAME", absl::StrCat("^=lo,", names));
  }
  return choice;
}

std::string InterfaceVariable(std::string_view version) {
  // MPICH stands on UCX, as in Debian, or on libfabric, whose variable is FI_TCP_IFACE.
  return version.starts_with("MPICH") ? "UCX_NET_DEVICES" : "OMPI_MCA_btl_tcp_if_include";
}

NetworkChoice ChooseSharedMemory(const std::string& version, const GetEnv& get_env) {
  NetworkChoice choice;
  choice.is_users = get_env("OMPI_MCA_btl") != nullptr || get_env("OMPI_MCA_pml") != nullptr;
  if (choice.is_users) return choice;
  // From 5 on Open MPI looks for a network even between processes of one host, and warns that it
  // found none. Before, its component for shared memory had another name.
  constexpr std::string_view kOpenMpi = "Open MPI v";
  if (version.starts_with(kOpenMpi) && std::atoi(version.c_str() + kOpenMpi.size()) >= 5) {
    choice.variables.emplace_back("OMPI_MCA_btl", "self,sm");
  }
  return choice;
}

}  // namespace dtrain::internal
