// environment.h - start and end of a rank: MPI where there is any, cores, threads, and the way out.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const auto environment, Environment::Create());
//   Communicator& comm = environment->World();
//   ... on failure, on any rank:  Environment::Abort(status.code());
//
// A process that neither mpirun nor srun started never calls MPI_Init and is a world of one rank.
// Create() comes first in main(), before any thread is started: it moves the process back from the
// single core mpirun binds a rank to by default onto all cores the job may use, and sets the number
// of compute threads to max(1, cores / ranks that share them), or to OMP_NUM_THREADS where that is
// set. A binding asked for (mpirun --bind-to ..., srun, taskset) is kept.
//
// Ranks under mpirun send heartbeats to rank 0 by a thread and a network socket (UDP) of their own:
// a rank that is stopped, dead, late or out of step is named within 10 s on all ranks, and after
// CommunicatorOptions::timeout_seconds of silence waiting ranks get a CommError, or end where they
// wait for the end of the job. A rank that computes for long is named, but waited for.
#ifndef DTRAIN_COMM_ENVIRONMENT_H_
#define DTRAIN_COMM_ENVIRONMENT_H_

#include <memory>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/comm/launch.h"

namespace dtrain {

namespace internal {
class Heartbeat;
}

class Environment {
 public:
  // UsageError for a launch that cannot work; CommunicationError where MPI fails.
  static StatusOr<std::unique_ptr<Environment>> Create();
  // Finalises MPI, which waits for the other ranks; where one of them falls silent meanwhile, this
  // process ends with exit code 6. A failed rank calls Abort() instead.
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // All ranks of the job; lives as long as the environment.
  Communicator& World() { return *world_; }
  const Launch& launch() const { return launch_; }
  // Cores this rank may run on, and compute threads it uses (also set by SetNumThreads).
  int cores() const { return cores_; }
  int threads() const { return threads_; }
  // "Open MPI v4.1.4", or "none" for a process on its own.
  const std::string& mpi_version() const { return mpi_version_; }

  // Ends all ranks of the job with this exit code, without destructors: no peer is left waiting.
  [[noreturn]] static void Abort(ExitCode exit_code);

 private:
  Environment() = default;
  // Ends the process with kCommunication where MPI takes longer.
  Status StartMpi(double timeout_seconds);
  void ChooseCores();
  // By what the ranks of this host share, and by what all ranks have.
  void ChooseThreadsAndIsa();

  Launch launch_;
  int cores_ = 1;
  int threads_ = 1;
  bool owns_mpi_ = false;
  std::string mpi_version_ = "none";
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<internal::Heartbeat> heartbeat_;
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_ENVIRONMENT_H_
