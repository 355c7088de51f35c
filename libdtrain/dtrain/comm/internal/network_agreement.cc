// network_agreement.cc - the rules by which interfaces are left out.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/network_agreement.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dtrain::internal {
namespace {

// A network over which all hosts reach each other.
struct AgreedNetwork {
  std::string name;
  bool is_tunnel = false;
  int64_t megabits_per_second = 0;  // of the slowest interface in it, or 0 if one is unknown
};

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::count(list.begin(), list.end(), item) > 0;
}

// The interface that is in a network, or null.
const NetworkInterface* MemberOf(const std::string& network,
                                 const std::vector<NetworkInterface>& interfaces) {
  const auto found =
      std::find_if(interfaces.begin(), interfaces.end(), [&](const NetworkInterface& interface) {
        const bool is_possible = interface.obstacle.empty() || interface.obstacle == kTunnel;
        return is_possible && Contains(interface.networks, network);
      });
  return found == interfaces.end() ? nullptr : &*found;
}

AgreedNetwork SpeedOf(const std::string& name, const NetworkFindings& findings,
                      const std::vector<NetworkInterface>& interfaces) {
  AgreedNetwork network{.name = name};
  std::vector<const NetworkInterface*> members = {MemberOf(name, interfaces)};
  for (const HostNetworks& host : findings.hosts) {
    members.push_back(MemberOf(name, host.interfaces));
  }
  bool is_known = true;
  for (const NetworkInterface* const member : members) {
    const int64_t speed = member == nullptr ? 0 : member->megabits_per_second;
    is_known = is_known && speed > 0;
    network.is_tunnel = network.is_tunnel || (member != nullptr && member->obstacle == kTunnel);
    network.megabits_per_second =
        network.megabits_per_second == 0 ? speed : std::min(network.megabits_per_second, speed);
  }
  if (!is_known) network.megabits_per_second = 0;
  return network;
}

// The networks in every host's verdict, the fastest first. All hosts get the same list.
std::vector<AgreedNetwork> AgreedNetworks(const NetworkFindings& findings,
                                          const std::vector<NetworkInterface>& interfaces) {
  std::vector<AgreedNetwork> agreed;
  for (const std::string& name : findings.own.good) {
    const bool is_good_for_all =
        std::all_of(findings.hosts.begin(), findings.hosts.end(), [&](const HostNetworks& host) {
          return host.verdict && Contains(host.verdict->good, name);
        });
    if (is_good_for_all) agreed.push_back(SpeedOf(name, findings, interfaces));
  }
  std::stable_sort(agreed.begin(), agreed.end(),
                   [](const AgreedNetwork& a, const AgreedNetwork& b) {
                     return a.megabits_per_second > b.megabits_per_second;
                   });
  return agreed;
}

// Why an interface is left out for `best`, or "".
std::string ReasonAgainst(const NetworkInterface& interface, const AgreedNetwork& best,
                          const NetworkInterface& best_interface,
                          const std::vector<NetworkPath>& paths) {
  // Of two cards in one network the system uses one for both.
  if (Contains(interface.networks, best.name)) return "";
  bool answers = false;
  int64_t lost_bytes = 0;
  for (const NetworkPath& path : paths) {
    if (path.interface != interface.name) continue;
    answers = answers || path.answers;
    lost_bytes = std::max(lost_bytes, path.lost_bytes);
  }
  if (!answers) return "no other host of this job answers on it";
  if (lost_bytes > 0) return absl::StrFormat("it loses packets of %d bytes", lost_bytes);
  if (interface.megabits_per_second > 0 &&
      interface.megabits_per_second < best.megabits_per_second) {
    return absl::StrCat("slower than ", DescribeSpeed(best_interface), ", which reaches all hosts");
  }
  return "";
}

}  // namespace

NetworkVerdict VerdictOf(const std::vector<NetworkPath>& paths,
                         const std::vector<std::string>& hosts) {
  NetworkVerdict verdict;
  std::set<std::string> networks;
  for (const NetworkPath& path : paths) networks.insert(path.network);
  const auto reaches = [&](const std::string& host, const auto& condition) {
    return std::any_of(paths.begin(), paths.end(), [&](const NetworkPath& path) {
      return path.host == host && path.answers && condition(path);
    });
  };
  for (const std::string& network : networks) {
    if (network.empty()) continue;
    if (std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
          return reaches(host, [&](const NetworkPath& path) {
            return path.network == network && path.lost_bytes == 0;
          });
        })) {
      verdict.good.push_back(network);
    }
  }
  verdict.needs_tunnel = !std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return reaches(host, [](const NetworkPath& path) { return !path.is_tunnel; });
  });
  return verdict;
}

void ApplyFindings(const NetworkFindings& findings, std::vector<NetworkInterface>& interfaces) {
  if (!findings.is_complete || findings.hosts.empty()) return;
  const std::vector<AgreedNetwork> agreed = AgreedNetworks(findings, interfaces);
  const auto first = [&](bool is_tunnel) {
    return std::find_if(agreed.begin(), agreed.end(), [&](const AgreedNetwork& network) {
      return network.is_tunnel == is_tunnel;
    });
  };
  if (const auto best = first(/*is_tunnel=*/false); best != agreed.end()) {
    const NetworkInterface kept = *MemberOf(best->name, interfaces);
    for (NetworkInterface& interface : interfaces) {
      if (interface.name == kept.name || !interface.obstacle.empty()) continue;
      interface.obstacle = ReasonAgainst(interface, *best, kept, findings.paths);
    }
    return;
  }
  const auto tunnel = first(/*is_tunnel=*/true);
  const bool is_needed =
      findings.own.needs_tunnel ||
      std::any_of(findings.hosts.begin(), findings.hosts.end(),
                  [](const HostNetworks& host) { return host.verdict->needs_tunnel; });
  if (tunnel == agreed.end() || !is_needed) return;
  const std::string kept = MemberOf(tunnel->name, interfaces)->name;
  for (NetworkInterface& interface : interfaces) {
    if (interface.name == kept) {
      interface.obstacle.clear();
    } else if (interface.obstacle.empty()) {
      interface.obstacle = absl::StrCat("it does not reach all hosts, as ", kept, " does");
    }
  }
}

std::vector<std::string> DescribeLostPackets(const NetworkFindings& findings,
                                             const std::string& self,
                                             const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> sentences;
  std::set<std::string> named;
  for (const NetworkPath& path : findings.paths) {
    if (path.lost_bytes == 0 || !named.insert(path.interface).second) continue;
    const bool is_left_out =
        std::any_of(interfaces.begin(), interfaces.end(), [&](const NetworkInterface& interface) {
          return interface.name == path.interface && !interface.obstacle.empty();
        });
    sentences.push_back(absl::StrCat(
        LostPacketsText(path, self),
        is_left_out ? absl::StrCat("; this job leaves ", path.interface, " out") : std::string()));
  }
  return sentences;
}

std::string LostPacketsText(const NetworkPath& path, const std::string& self) {
  return absl::StrFormat(
      "packets of %d bytes from host %s, %s (%s), do not reach host %s (%s), though small ones do: "
      "large messages hang on such a network; set the MTU of its interfaces on all hosts to what "
      "cables and switches carry (ip link set %s mtu 1500)",
      path.lost_bytes, self, path.interface, path.local, path.host, path.address, path.interface);
}

std::string DescribeSpeed(const NetworkInterface& interface) {
  return interface.megabits_per_second > 0
             ? absl::StrFormat("%s (%d Mbit/s)", interface.name, interface.megabits_per_second)
             : interface.name;
}

}  // namespace dtrain::internal
