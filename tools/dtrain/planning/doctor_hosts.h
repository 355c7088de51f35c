// doctor_hosts.h - whether this host reaches those of a job, without MPI, which may not start.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_PLANNING_DOCTOR_HOSTS_H_
#define DTRAIN_TOOLS_DTRAIN_PLANNING_DOCTOR_HOSTS_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

// The items of "a:2,b:2", without the numbers of ranks.
std::vector<std::string> HostsIn(std::string_view list);

// Prints the ways from this host to the others. CommunicationError with a sentence for each host
// that is not reached. Takes up to 7 s.
Status ExamineHosts(const std::vector<std::string>& hosts);

// Waits for the ranks of a job whose mpirun is process `launcher`. If none has started after
// `seconds`, logs a warning for hosts that are not reached, if any. Returns at once when mpirun
// ends.
void WatchLaunch(pid_t launcher, double seconds);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_PLANNING_DOCTOR_HOSTS_H_
