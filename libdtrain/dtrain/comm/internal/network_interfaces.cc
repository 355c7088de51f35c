// network_interfaces.cc - reads getifaddrs() and /sys/class/net.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/network_interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dtrain::internal {
namespace {

constexpr const char* kSysClassNet = "/sys/class/net";

// How container engines, their network plug-ins and hypervisors name what they make. A bridge with
// another name is found by its ports.
constexpr std::array<const char*, 17> kVirtualNames = {
    "docker", "br-",    "virbr", "veth",  "cni",   "flannel", "cali", "cilium_",     "lxc",
    "lxdbr",  "podman", "kube-", "dummy", "vmnet", "vboxnet", "vnet", "nodelocaldns"};
constexpr std::array<const char*, 7> kTunnelNames = {"tun", "tap",       "wg",   "ppp",
                                                     "zt",  "tailscale", "ipsec"};
// Hardware types of <linux/if_arp.h>: PPP, IP in IP, IPv6 in IP, GRE, and devices without one.
constexpr std::array<int, 6> kTunnelTypes = {512, 768, 769, 776, 778, 65534};

template <size_t n>
bool StartsWithAny(std::string_view name, const std::array<const char*, n>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

int64_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : 0;
}

// A bridge whose ports include a network card is how hypervisors connect the host itself.
bool HasNetworkCard(const std::string& bridge) {
  std::error_code error;
  std::filesystem::directory_iterator ports(bridge + "/brif", error);
  if (error) return false;
  return std::any_of(begin(ports), end(ports), [&](const auto& port) {
    const std::string folder = absl::StrCat(bridge, "/../", port.path().filename().string());
    return Exists(folder + "/device");
  });
}

bool IsTunnel(const std::string& name, const std::string& folder) {
  if (Exists(folder + "/tun_flags")) return true;
  const int64_t type = ReadNumber(folder + "/type");
  return std::count(kTunnelTypes.begin(), kTunnelTypes.end(), type) > 0 ||
         StartsWithAny(name, kTunnelNames);
}

// Returns "" for addresses that only this link knows, and for families other than IP.
std::string AddressText(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&v6)) return "";
    bytes = &v6;
  } else {
    return "";
  }
  const char* const printed = inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return printed == nullptr ? "" : printed;
}

// The number of leading ones of a network's mask.
int BitsOf(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const bool is_v4 = mask->sa_family == AF_INET;
  const auto* const bytes = is_v4 ? reinterpret_cast<const unsigned char*>(
                                        &reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
                                  : reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr;
  int bits = 0;
  for (size_t i = 0; i < (is_v4 ? sizeof(in_addr) : sizeof(in6_addr)); ++i) {
    bits += std::countl_one(bytes[i]);
    if (bytes[i] != 0xff) break;
  }
  return bits;
}

}  // namespace

std::string NetworkOf(const std::string& address, int bits) {
  const int family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_pton(family, address.c_str(), bytes.data()) != 1) return "";
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int kept = std::clamp(bits - static_cast<int>(8 * i), 0, 8);
    bytes[i] = static_cast<unsigned char>(bytes[i] & (0xff00 >> kept));
  }
  if (::inet_ntop(family, bytes.data(), text.data(), text.size()) == nullptr) return "";
  return absl::StrCat(text.data(), "/", bits);
}

std::string ObstacleOf(const std::string& name, const std::string& sys_class_net) {
  const std::string folder = sys_class_net + "/" + name;
  if (Exists(folder + "/bridge")) {
    return HasNetworkCard(folder) ? "" : "a bridge for containers or virtual machines";
  }
  if (StartsWithAny(name, kVirtualNames)) return "made for containers or virtual machines";
  if (IsTunnel(name, folder)) return kTunnel;
  return "";
}

std::vector<NetworkInterface> ListNetworkInterfaces() {
  std::vector<NetworkInterface> interfaces;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return interfaces;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const std::string address = AddressText(i->ifa_addr);
    if (address.empty()) continue;
    const std::string name = i->ifa_name;
    auto found = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const NetworkInterface& known) { return known.name == name; });
    if (found == interfaces.end()) {
      const bool is_up = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_RUNNING) != 0;
      interfaces.push_back({.name = name,
                            .addresses = {},
                            .obstacle = is_up ? ObstacleOf(name, kSysClassNet) : "its link is down",
                            .megabits_per_second = std::max<int64_t>(
                                ReadNumber(absl::StrCat(kSysClassNet, "/", name, "/speed")), 0),
                            .mtu = ReadNumber(absl::StrCat(kSysClassNet, "/", name, "/mtu"))});
      found = interfaces.end() - 1;
    }
    found->addresses.push_back(address);
    found->networks.push_back(NetworkOf(address, BitsOf(i->ifa_netmask)));
  }
  ::freeifaddrs(list);
  return interfaces;
}

std::string DescribeInterfaces(const std::vector<NetworkInterface>& interfaces) {
  if (interfaces.empty()) return "none but loopback";
  return absl::StrJoin(interfaces, "; ", [](std::string* text, const NetworkInterface& interface) {
    absl::StrAppend(text, interface.name, " ", absl::StrJoin(interface.addresses, " "));
    if (interface.obstacle.empty()) return;
    absl::StrAppend(text, " (used only if named: ", interface.obstacle, ")");
  });
}

}  // namespace dtrain::internal
