// run_on_ranks.h - the frame of every program: ranks up, body, one report, one exit code for all.
// SPDX-License-Identifier: Apache-2.0
//
//   int main(int argc, char** argv) {
//     return dtrain::RunOnRanks(argc, argv, {}, dtrain::OkStatus(), [&](dtrain::Runtime& runtime) {
//       if (argc > 2) return dtrain::UsageError("usage: mine [RUN_FOLDER]");
//       std::printf("rank %d of %d\n", runtime.comm.rank(), runtime.comm.size());
//       return dtrain::OkStatus();
//     });
//   }
//
// An error ends the whole job: the rank that met it prints
//   dtrain: error[E3]: rank 1: corpus.en:7: invalid UTF-8; ... (see docs/errors.md#e3)
// once, and no peer is left waiting. Errors that all ranks meet alike are printed once. Exceptions
// become exit codes.
#ifndef DTRAIN_LAUNCH_RUN_ON_RANKS_H_
#define DTRAIN_LAUNCH_RUN_ON_RANKS_H_

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/device.h"

namespace dtrain {

struct StopFlags;

// The device that ranks compute on. kAuto takes a GPU if this build and the host have one.
enum class DeviceChoice { kAuto, kCpu, kCuda };

// Options of the ranks, the same on all of them.
struct RuntimeOptions {
  DeviceChoice device = DeviceChoice::kAuto;
  int threads = 0;          // 0: cores of the host / its ranks
  double comm_timeout = 0;  // seconds; 0: DTRAIN_COMM_TIMEOUT or the communicator's default
};

// Made by Main() and by RunOnRanks(); everything it refers to outlives the program's body.
struct Runtime {
  Communicator& comm;
  Device device;
  int threads = 1;                     // compute threads of this rank
  std::string mpi;                     // "Open MPI v4.1.4", or "none"
  std::vector<std::string> arguments;  // the command line, program first
  // Advice printed when memory runs out, for example "use trainer.recompute=full". Optional; a
  // program sets it from its memory plan (tasks/shared/memory_plan.h).
  std::function<std::string()> memory_remedies = {};
  // The program's configuration where nobody sets anything, as a textproto; "" if it has none.
  std::string default_config = {};

  // Requests by signals, for a TrainLoop or a Trainer. From the first call on, TERM, INT and HUP
  // ask to stop and no longer end the process.
  StopFlags& StopRequests() const;
  // From now on every log line of this rank also goes to directory/logs/rank-NNNNN.log (appended,
  // with UTC time and level). StorageError where that file cannot be opened.
  Status OpenLog(const std::string& directory) const;
};

// `early` is how the work before ranks exist ended, such as reading the configuration: an error of
// any rank ends the job here. Otherwise runs `body` on every rank. Returns the exit code for
// main(); ends the process itself where other ranks must be ended too. Call it once per process.
// It may restart the process so that waiting threads sleep (base/thread_pool.h): a main() that must
// not do again what comes before, such as reading stdin, calls ReexecWithPassiveWaiting() first.
int RunOnRanks(int argc, char** argv, const RuntimeOptions& options, const Status& early,
               const std::function<Status(Runtime&)>& body);

// The exit code of a program that an exception ends: CommError 6, std::bad_alloc 5, all others 1.
ExitCode ExitCodeOfException(const std::exception& error);

// The line that reports a status, without newline: "dtrain: error[E3]: ... (see
// docs/errors.md#e3)"; for StoppedError "dtrain: stopped: ... (see docs/errors.md#e75)". rank < 0
// is not named.
std::string ErrorReport(const Status& status, int rank = -1);

// Prints ErrorReport() to stderr, from rank 0 alone, and returns the exit code: the end of programs
// and commands before they have ranks.
int ReportAndGetExitCode(const Status& status);

// Rank this process was given by mpirun or srun, before MPI is up; 0 for a process on its own.
int LaunchedRank();

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_RUN_ON_RANKS_H_
