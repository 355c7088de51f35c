// reach.h - tries whether this host reaches another one over TCP, to explain a start that hangs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_REACH_H_
#define DTRAIN_COMM_INTERNAL_REACH_H_

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::internal {

struct HostReach {
  std::string host;
  std::string address;  // what the name resolves to, or ""
  std::string local;    // our own address on the way there, or ""
  std::string problem;  // a sentence that says what is wrong and what helps, or "" if it is reached
};

// Tries all hosts but this one, `self`, at the same time, for at most `seconds`. A host is reached
// if it takes a connection to a high port, as MPI uses them, or refuses it: a firewall would do
// neither. At most 64 hosts are tried.
std::vector<HostReach> TryHosts(const std::vector<std::string>& hosts, std::string_view self,
                                double seconds);

// Lines for a message: each host that is not reached, with its problem. "" if all are.
std::string DescribeProblems(const std::vector<HostReach>& reach);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_REACH_H_
