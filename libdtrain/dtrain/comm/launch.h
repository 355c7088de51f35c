// launch.h - how this process was started, read from its environment variables.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_LAUNCH_H_
#define DTRAIN_COMM_LAUNCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"

namespace dtrain {

// Reads an environment variable; null if it is not set. std::getenv, or a table in tests.
using GetEnv = std::function<const char*(const char*)>;

struct Launch {
  bool parallel = false;         // started by mpirun or srun: MPI must be initialised
  std::string launcher;          // "mpirun", "srun", "PMI" or ""
  int size = 0;                  // ranks that the launcher announced, or 0 if it announced none
  int local_size = 1;            // ranks on this host, as far as known before MPI starts
  int local_rank = 0;            // this rank's number among them, as far as known
  bool bound_by_mpirun = false;  // mpirun bound the ranks to cores by default
  int threads = 0;               // OMP_NUM_THREADS, or 0 if it is not set
  std::string warning;           // on the first rank: a warning to log before MPI starts, or ""
};

// `parent` is the command and the environment of the process that started this one, word by word.
// Returns UsageError if the tasks of srun would not find each other, or if OMP_NUM_THREADS is not a
// number.
StatusOr<Launch> DetectLaunch(const GetEnv& get_env, const std::vector<std::string>& parent = {});

// Returns UsageError if the launcher announced another number of ranks than MPI found. Then the
// program and the launcher use different MPI libraries.
Status CheckWorldSize(const Launch& launch, int mpi_size);

// The defaults, changed by DTRAIN_COMM_TIMEOUT (seconds, more than 0), DTRAIN_ALLREDUCE (auto,
// flat, hierarchical or measure), DTRAIN_NCCL (auto or off) and DTRAIN_COMM_RECORD
// (record_directory). Environment copies these variables from the first rank to all ranks.
StatusOr<CommunicatorOptions> CommunicatorOptionsFrom(const GetEnv& get_env);

// Returns DTRAIN_PORT, the UDP port of rank 0's heartbeats, or 0 for any. The port after it is the
// one through which hosts find each other's networks before MPI starts. UsageError if it is not a
// number from 1024 to 65534.
StatusOr<uint16_t> PortFrom(const GetEnv& get_env);

}  // namespace dtrain

#endif  // DTRAIN_COMM_LAUNCH_H_
