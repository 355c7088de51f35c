// run_on_ranks.h - the frame of every program: ranks up, body, one report, one exit code for all.
// SPDX-License-Identifier: Apache-2.0
//
//   return RunOnRanks(argc, argv, {}, OkStatus(), [](Runtime& runtime) { ...; });
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

#include "dtrain/base/status.h"
#include "dtrain/launch/choose_device.h"
#include "dtrain/launch/runtime.h"

namespace dtrain {

struct RuntimeOptions {
  DeviceChoice device = DeviceChoice::kAuto;
  int threads = 0;          // 0: cores of the host / its ranks
  double comm_timeout = 0;  // seconds; 0: DTRAIN_COMM_TIMEOUT or the communicator's default
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
