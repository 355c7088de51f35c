// mpi_communicator.h - the communicator of the processes that mpirun or srun started.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_MPI_COMMUNICATOR_H_
#define DTRAIN_COMM_MPI_COMMUNICATOR_H_

#include <memory>

#include "dtrain/comm/communicator.h"

namespace dtrain {

// All ranks of MPI_COMM_WORLD, on a duplicate of it, so that a program's own messages do not meet
// ours. MPI must be initialised (Environment does that) and outlive the communicator. Collective;
// throws CommError.
std::unique_ptr<Communicator> MakeMpiCommunicator(const CommunicatorOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_COMM_MPI_COMMUNICATOR_H_
