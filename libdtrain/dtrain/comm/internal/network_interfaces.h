// network_interfaces.h - the network interfaces of this host, and which of them reach other hosts.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_NETWORK_INTERFACES_H_
#define DTRAIN_COMM_INTERNAL_NETWORK_INTERFACES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::internal {

struct NetworkInterface {
  std::string name;                         // "eth0"
  std::vector<std::string> addresses = {};  // "10.77.0.1", "fd00::1"; without link-local ones
  // Why other hosts of a job are most likely not reached by it, such as "a bridge for containers
  // or virtual machines". Empty for an interface that reaches them.
  std::string obstacle = {};
  int64_t megabits_per_second = 0;  // 0 if the driver does not say
  int64_t mtu = 0;                  // bytes of the largest packet, or 0 if unknown
  // The networks of `addresses`, in their order: "10.77.0.0/24".
  std::vector<std::string> networks = {};
};

// The obstacle of tunnels, which are used after all where nothing else reaches a host.
inline constexpr const char* kTunnel = "a tunnel";

// Returns the network of an address whose first `bits` count, "10.77.0.0/24" for "10.77.0.1" and
// 24; "" for a text that is no address.
std::string NetworkOf(const std::string& address, int bits);

// Returns the interfaces that have an address, without the loopback interface.
std::vector<NetworkInterface> ListNetworkInterfaces();

// Returns the obstacle of interface `name` from what the kernel's folder /sys/class/net says of it:
// a bridge without a network card, a virtual cable of a container, a tunnel, or "" for none.
std::string ObstacleOf(const std::string& name, const std::string& sys_class_net);

// One line for messages: "eth0 10.77.0.1; docker0 172.17.0.1 (used only if named: ...)".
std::string DescribeInterfaces(const std::vector<NetworkInterface>& interfaces);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NETWORK_INTERFACES_H_
