// mpi_communicator.h - the communicator of the processes that mpirun or srun started.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_MPI_COMMUNICATOR_H_
#define DTRAIN_COMM_MPI_COMMUNICATOR_H_

#include <memory>

#include "dtrain/comm/communicator.h"

namespace dtrain {

// Makes a communicator for all ranks of MPI_COMM_WORLD. It uses a duplicate of that, so that its
// messages never meet a program's own. MPI must be initialised (Environment does that) and must
// outlive the communicator. All ranks call it. Throws CommError.
std::unique_ptr<Communicator> MakeMpiCommunicator(const CommunicatorOptions& options);

}  // namespace dtrain

#endif  // DTRAIN_COMM_MPI_COMMUNICATOR_H_
