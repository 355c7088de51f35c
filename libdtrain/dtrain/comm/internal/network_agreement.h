// network_agreement.h - which networks a job uses, from what all of its hosts have found out.
// SPDX-License-Identifier: Apache-2.0
//
// A host leaves an interface out only if all hosts have said that they reach each other over
// another network, which all of them keep. So hosts that leave out different ones, or did not get
// all answers and leave out none, still reach each other.
#ifndef DTRAIN_COMM_INTERNAL_NETWORK_AGREEMENT_H_
#define DTRAIN_COMM_INTERNAL_NETWORK_AGREEMENT_H_

#include <string>
#include <vector>

#include "dtrain/comm/internal/network_survey.h"

namespace dtrain::internal {

// Returns what this host tells the others: over which networks it reaches all of `hosts`.
NetworkVerdict VerdictOf(const std::vector<NetworkPath>& paths,
                         const std::vector<std::string>& hosts);

// Gives an obstacle to each interface of this host that is slower than one that reaches all hosts,
// that reaches nobody, or that loses large packets. Takes the obstacle from a tunnel if some hosts
// reach each other by it alone; then it is the only one left. `interfaces` are those of the survey.
void ApplyFindings(const NetworkFindings& findings, std::vector<NetworkInterface>& interfaces);

// One sentence for each interface of this host, `self`, that loses large packets. It names both
// hosts and what helps, and says whether the interface is left out: whether it has an obstacle.
std::vector<std::string> DescribeLostPackets(const NetworkFindings& findings,
                                             const std::string& self,
                                             const std::vector<NetworkInterface>& interfaces);
// The part of that sentence that says what is wrong and what helps.
std::string LostPacketsText(const NetworkPath& path, const std::string& self);

// "eth1 (10000 Mbit/s)".
std::string DescribeSpeed(const NetworkInterface& interface);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NETWORK_AGREEMENT_H_
