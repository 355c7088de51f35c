// job_hosts.h - the names of a job's hosts, as launchers tell them before MPI starts.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_JOB_HOSTS_H_
#define DTRAIN_COMM_INTERNAL_JOB_HOSTS_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "dtrain/comm/launch.h"

namespace dtrain::internal {

// Expands a list of host names as Open MPI and Slurm shorten it: "a,b", "node[1-3,7]",
// "node[01-12].cluster", "node[2:1-4]@0(4)" (two digits). Returns nothing for a list that it does
// not understand, or one of over 10,000 names.
std::vector<std::string> ExpandHostList(std::string_view list);

// Returns the hosts of this job, or nothing if neither the environment nor the command of the
// launcher, `launcher_command` (its arguments, the name first), says them.
std::vector<std::string> JobHosts(const GetEnv& get_env,
                                  const std::vector<std::string>& launcher_command);

// Returns `hosts` without this one, `self`, and localhost. Names with and without a domain are the
// same.
std::vector<std::string> OtherHosts(const std::vector<std::string>& hosts, std::string_view self);

// The arguments of a process.
std::vector<std::string> CommandOf(pid_t process);
// The arguments of this process's parent, which is the launcher or its daemon. In place of a proxy
// of MPICH's launcher, which is not told the hosts: those of the process that started the proxy.
std::vector<std::string> ParentCommand();
// The parent's variables, each as NAME=VALUE.
std::vector<std::string> ParentVariables();

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_JOB_HOSTS_H_
