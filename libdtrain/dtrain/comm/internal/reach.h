// reach.h - tries whether this host reaches other ones, to explain a start that hangs.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_REACH_H_
#define DTRAIN_COMM_INTERNAL_REACH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/comm/launch.h"

namespace dtrain::internal {

struct HostReach {
  std::string host = {};
  std::string address = {};    // what the name resolves to, or ""
  std::string interface = {};  // of this host, on the way there, or ""
  std::string local = {};      // its address, or ""
  std::string problem = {};    // a sentence that says what is wrong and what helps, or ""
};

struct ReachOptions {
  double seconds = 4;       // to wait for all answers, and up to 2 s more for large packets
  uint16_t port = 47113;    // as MPI takes them: above 32767
  std::string advice = {};  // what helps where a firewall drops connections; see PortAdvice()
};

// Tries all hosts but this one, `self`, at the same time. A host is reached if it takes a
// connection to the port or refuses it: a firewall would do neither. Then it must answer packets of
// the interface's full size, too. At most 64 hosts are tried.
std::vector<HostReach> TryHosts(const std::vector<std::string>& hosts, const std::string& self,
                                const ReachOptions& options);

// Lines for a message: each host that is not reached, with its problem. "" if all are.
std::string DescribeProblems(const std::vector<HostReach>& reach);

// Returns which ports the MPI library of that version needs, and the settings that limit them.
std::string PortAdvice(std::string_view mpi_version);

// Returns the first of the ports that the user has set for Open MPI's ranks, or that of
// ReachOptions.
uint16_t PortOfRanks(const GetEnv& get_env);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_REACH_H_
