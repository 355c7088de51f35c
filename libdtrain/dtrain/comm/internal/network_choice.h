// network_choice.h - keeps MPI and NCCL away from network interfaces that reach no other host.
// SPDX-License-Identifier: Apache-2.0
//
// Open MPI takes every interface that is up. Hosts with Docker all have a bridge docker0 with the
// same address, 172.17.0.1: each finds itself there instead of the other, and the job hangs. The
// choice is made by environment variables, which both libraries read when they start.
#ifndef DTRAIN_COMM_INTERNAL_NETWORK_CHOICE_H_
#define DTRAIN_COMM_INTERNAL_NETWORK_CHOICE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/comm/internal/network_interfaces.h"
#include "dtrain/comm/launch.h"

namespace dtrain::internal {

struct NetworkChoice {
  // Names and values of environment variables to set before MPI starts.
  std::vector<std::pair<std::string, std::string>> variables;
  // True if the user chose Open MPI's interfaces, by a variable, an option of mpirun or a file.
  bool is_users = false;
};

// Leaves out the interfaces with an obstacle, unless that would leave none. What the user chose, by
// variables or in the libraries' configuration files, stays as it is.
NetworkChoice ChooseNetwork(const std::vector<NetworkInterface>& interfaces, const GetEnv& get_env);

// The variable that names the interface for the MPI library of that version to use.
std::string InterfaceVariable(std::string_view version);

// A job on a single host needs no network: Open MPI is told to use shared memory only. `version`
// is that of the MPI library ("Open MPI v5.0.7"). Nothing if the user chose, or for another MPI.
NetworkChoice ChooseSharedMemory(const std::string& version, const GetEnv& get_env);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NETWORK_CHOICE_H_
