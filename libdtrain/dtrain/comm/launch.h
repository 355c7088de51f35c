// launch.h - how this process was started, read from its environment variables.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_LAUNCH_H_
#define DTRAIN_COMM_LAUNCH_H_

#include <functional>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"

namespace dtrain {

// Reads an environment variable, nullptr where it is not set: std::getenv, or a table in tests.
using GetEnv = std::function<const char*(const char*)>;

struct Launch {
  bool parallel = false;         // by mpirun or srun: MPI is to be initialised
  std::string launcher;          // "mpirun", "srun", "PMI" or ""
  int size = 0;                  // ranks the launcher announced, 0 where it does not say
  int local_size = 1;            // ranks on this host, as far as known before MPI is up
  bool bound_by_mpirun = false;  // mpirun bound the ranks to cores unasked
  int threads = 0;               // OMP_NUM_THREADS, 0 where it is not set
  std::string warning;           // to be told before MPI starts, on the first rank; else ""
};

// UsageError where tasks of srun would not find each other, or OMP_NUM_THREADS is no number.
StatusOr<Launch> DetectLaunch(const GetEnv& get_env);

// UsageError where the launcher announced another number of ranks than MPI found: the program was
// built with another MPI library than the launcher's.
Status CheckWorldSize(const Launch& launch, int mpi_size);

// The defaults, changed by DTRAIN_COMM_TIMEOUT (seconds, more than 0), DTRAIN_ALLREDUCE (auto,
// flat, hierarchical or measure), DTRAIN_NCCL (auto or off) and DTRAIN_COMM_RECORD
// (record_directory). Environment gives all ranks what the first has of them.
StatusOr<CommunicatorOptions> CommunicatorOptionsFrom(const GetEnv& get_env);

}  // namespace dtrain

#endif  // DTRAIN_COMM_LAUNCH_H_
