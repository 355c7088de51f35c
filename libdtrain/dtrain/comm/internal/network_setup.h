// network_setup.h - chooses the networks of a job and tells MPI and NCCL, before they start.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_NETWORK_SETUP_H_
#define DTRAIN_COMM_INTERNAL_NETWORK_SETUP_H_

#include <memory>
#include <string>

#include "dtrain/comm/internal/network_survey.h"
#include "dtrain/comm/launch.h"

namespace dtrain::internal {

// Sets variables that both libraries read when they start, except those that the user has set.
// Waits for the other hosts' answers, if the launcher says who they are, and warns of networks that
// lose packets. Keep what it returns until MPI has started on all hosts: it answers the others.
// Null for a job on one host.
std::unique_ptr<NetworkSurvey> SetUpNetwork(const Launch& launch, const std::string& mpi_version);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_NETWORK_SETUP_H_
