// network_interfaces.h - the network interfaces of this host, and which of them reach other hosts.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_NETWORK_INTERFACES_H_
#define DTRAIN_COMM_INTERNAL_NETWORK_INTERFACES_H_

#include <string>
#include <vector>

namespace dtrain::internal {

struct NetworkInterface {
  std::string name;                    // "eth0"
  std::vector<std::string> addresses;  // "10.77.0.1", "fd00::1"; without link-local ones
  // Why other hosts of a job are most likely not reached by it, such as "a bridge for containers
  // or virtual machines". Empty for an interface that reaches them.
  std::string obstacle;
  int64_t megabits_per_second = 0;  // 0 if the driver does not say
};

// Returns the interfaces that have an address, without the loopback interface.
std::vector<NetworkInterface> ListNetworkInterfaces();

// Returns the obstacle of interface `name` from what the kernel's folder /sys/class/net says of it:
// a bridge without a network card, a virtual cable of a container, a tunnel, or "" for none.
std::string ObstacleOf(const std::string& name, const std::string& sys_class_net);

// One line for messages: "eth0 10.77.0.1; docker0 172.17.0.1 (used only if named: ...)".
std::string DescribeInterfaces(const std::vector<NetworkInterface>& interfaces);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NETWORK_INTERFACES_H_
