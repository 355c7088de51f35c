// mpi_world.h - the environment of a test that runs under mpirun.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_MPI_WORLD_H_
#define DTRAIN_TESTING_MPI_WORLD_H_

#include "dtrain/comm/environment.h"

namespace dtrain::testing {

// Created by the main function of MPI tests (mpi_test_main.cc).
Environment& MpiEnvironment();
inline Communicator& MpiWorld() { return MpiEnvironment().World(); }

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTING_MPI_WORLD_H_
