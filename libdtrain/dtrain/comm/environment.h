// environment.h - starts and ends a rank: MPI, CPU cores, compute threads and heartbeats.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const auto environment, Environment::Create());
//   Communicator& comm = environment->World();
//   ... on failure, on any rank:  Environment::Abort(status.code());
//
// A process that neither mpirun nor srun started is a world of one rank and never calls MPI_Init.
// Call Create() first in main(), before any thread starts. By default mpirun binds a rank to a
// single core; Create() moves the process back onto all cores that the job may use. It sets the
// number of compute threads to max(1, cores / ranks that share them), or to OMP_NUM_THREADS if that
// is set. A binding that was asked for (mpirun --bind-to ..., srun, taskset) is kept.
//
// Ranks under mpirun send heartbeats to rank 0, by a thread and a network socket (UDP) of their
// own. All ranks name a rank that is stopped, dead, late or out of step within 10 s. After
// CommunicatorOptions::timeout_seconds of silence waiting ranks get a CommError; ranks that wait
// for the end of the job end. A rank that computes for long is named, but the others wait for it.
#ifndef DTRAIN_COMM_ENVIRONMENT_H_
#define DTRAIN_COMM_ENVIRONMENT_H_

#include <memory>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/comm/launch.h"

namespace dtrain {

namespace internal {
class HeartbeatService;
}

class Environment {
 public:
  // Returns UsageError for a launch that cannot work, CommunicationError if MPI fails.
  static StatusOr<std::unique_ptr<Environment>> Create();
  // Finalises MPI, which waits for the other ranks. If one of them falls silent meanwhile, this
  // process ends with exit code 6. A failed rank calls Abort() instead.
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // The communicator of all ranks of the job. It exists as long as the environment.
  Communicator& World() { return *world_; }
  const Launch& launch() const { return launch_; }
  // The cores that this rank may use, and its number of compute threads (SetNumThreads).
  int cores() const { return cores_; }
  int threads() const { return threads_; }
  // "Open MPI v4.1.4", or "none" for a process without a launcher.
  const std::string& mpi_version() const { return mpi_version_; }

  // Ends all ranks of the job with this exit code, without destructors, so that no rank waits.
  [[noreturn]] static void Abort(ExitCode exit_code);

 private:
  Environment() = default;
  // Ends the process with kCommunication if MPI takes longer.
  Status StartMpi(double timeout_seconds);
  void ChooseCores();
  // Threads depend on the ranks that share the cores, the instruction set on the processors of all
  // ranks.
  void ChooseThreadsAndIsa();

  Launch launch_;
  int cores_ = 1;
  int threads_ = 1;
  bool owns_mpi_ = false;
  std::string mpi_version_ = "none";
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<internal::HeartbeatService> heartbeat_;
};

}  // namespace dtrain

#endif  // DTRAIN_COMM_ENVIRONMENT_H_
