// run_on_ranks.cc - start, body, and the way out with one message.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/run_on_ranks.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/base/bus_error.h"
#include "dtrain/base/log.h"
#include "dtrain/base/printable.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/comm/environment.h"
#include "dtrain/comm/gather.h"
#include "dtrain/device/arena.h"
#include "dtrain/launch/choose_device.h"
#include "dtrain/launch/signals.h"

namespace dtrain {
namespace {

void Report(const Status& status, int rank) {
  const std::string report = ErrorReport(status, rank);
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", report.c_str());
  std::fflush(stderr);
}

// What `remedies` says, or where there is none, or it fails as well, advice without numbers.
std::string RemediesText(const std::function<std::string()>& remedies) {
  std::string text;
  try {
    if (remedies) text = remedies();
  } catch (const std::exception&) {
    text.clear();
  }
  if (!text.empty()) return text;
  return "lower trainer.micro_batch_tokens (the result stays the same), set "
         "trainer.recompute=full, or use trainer.precision=bf16";
}

// Runs a function that may also throw. `remedies` is called after it.
Status Guarded(const std::function<Status()>& function,
               const std::function<std::string()>& remedies) {
  try {
    return function();
  } catch (const std::exception& error) {
    switch (ExitCodeOfException(error)) {
      case ExitCode::kCommunication:
        return CommunicationError(error.what());
      case ExitCode::kOutOfMemory:
        if (dynamic_cast<const DeviceMemoryError*>(&error) != nullptr) {
          return OutOfMemoryError(absl::StrFormat("%s; %s", error.what(), RemediesText(remedies)));
        }
        return OutOfMemoryError(absl::StrFormat("out of memory; %s, or start fewer ranks per host",
                                                RemediesText(remedies)));
      default:
        return InternalError(error.what());
    }
  }
}

// How the work ended so far, told by all ranks to all. True where everyone may go on. Otherwise
// the first rank that failed reports, and `exit_code` is the same everywhere.
bool AllMayGoOn(const Status& status, Communicator& comm, int& exit_code) {
  const std::vector<int> codes = AllGather(comm, static_cast<int>(status.code()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    exit_code = codes[static_cast<size_t>(rank)];
    if (exit_code == 0) continue;
    if (rank == comm.rank()) Report(status, comm.size() > 1 && rank > 0 ? rank : -1);
    return false;
  }
  return true;
}

// The end of a rank that failed while others may be anywhere. Ranks that fail together must not
// all speak: rank 0 does so at once, the others where they are still alive a moment later. A lost
// connection waits longest, because it is often another rank's error seen from here.
[[noreturn]] void EndJob(const Status& status, int rank) {
  const ExitCode code = status.code();
  // mpirun ends the others with TERM, which is no request any more but the end.
  EndByTermFromHere();
  int milliseconds = rank == 0 ? 0 : 400;
  if (code == ExitCode::kCommunication) milliseconds += 1000;
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  Report(status, rank);
  Environment::Abort(code);
}

// Before ranks can talk: rank 0 reports, the others only where they outlive it.
int FailBeforeRanks(const Status& status) {
  const int rank = LaunchedRank();
  if (rank > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  Report(status, rank > 0 ? rank : -1);
  return static_cast<int>(status.code());
}

// Warnings and errors go to the terminal with the rank's number, the rest only to OpenLog()'s file.
void LogWithRank(const Communicator& comm) {
  if (comm.size() == 1) return;
  SetLogSink([rank = comm.rank()](LogLevel level, std::string_view message) {
    if (level < LogLevel::kWarning) return;
    std::fprintf(
        stderr, "%s\n",
        absl::StrFormat("dtrain: %s: rank %d: %s", LogLevelName(level), rank, message).c_str());
  });
}

}  // namespace

int LaunchedRank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return 0;
}

int ReportAndGetExitCode(const Status& status) {
  if (!status.ok() && LaunchedRank() == 0) Report(status, -1);
  return static_cast<int>(status.code());
}

ExitCode ExitCodeOfException(const std::exception& error) {
  if (dynamic_cast<const CommError*>(&error) != nullptr) return ExitCode::kCommunication;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return ExitCode::kOutOfMemory;
  return ExitCode::kInternal;
}

std::string ErrorReport(const Status& status, int rank) {
  const int code = static_cast<int>(status.code());
  const std::string kind = status.code() == ExitCode::kStopped
                               ? std::string("stopped")
                               : absl::StrFormat("error[E%d]", code);
  const std::string who = rank < 0 ? "" : absl::StrFormat("rank %d: ", rank);
  return absl::StrFormat("dtrain: %s: %s%s (see docs/errors.md#e%d)", kind, who,
                         PrintableLines(status.message()), code);
}

int RunOnRanks(int argc, char** argv, const RuntimeOptions& options, const Status& early,
               const std::function<Status(Runtime&)>& body) {
  ReexecWithPassiveWaiting();
  WatchSignals();
  ReportShrunkFiles();
  if (options.comm_timeout > 0) {
    setenv("DTRAIN_COMM_TIMEOUT", absl::StrFormat("%g", options.comm_timeout).c_str(),
           /*replace=*/1);
  }
  StatusOr<std::unique_ptr<Environment>> created = Environment::Create();
  if (!created.ok()) return FailBeforeRanks(early.ok() ? created.status() : early);
  const std::unique_ptr<Environment> environment = *std::move(created);
  Communicator& comm = environment->World();
  LogWithRank(comm);
  if (options.threads > 0) SetNumThreads(options.threads);

  int exit_code = 0;
  std::optional<Runtime> runtime;
  const auto work = [&] {
    const StatusOr<Device> device = ChooseDevice(options.device, comm);
    if (!AllMayGoOn(early.ok() ? device.status() : early, comm, exit_code) ||
        !AllMayGoOn(CheckDevices(*device, comm), comm, exit_code)) {
      return OkStatus();
    }
    runtime.emplace(Runtime{.comm = comm,
                            .device = *device,
                            .threads = NumThreads(),
                            .mpi = environment->mpi_version(),
                            .arguments = std::vector<std::string>(argv, argv + argc)});
    return body(*runtime);
  };
  const Status status = Guarded(work, [&] {
    const bool knows = runtime.has_value() && runtime->memory_remedies;
    return knows ? runtime->memory_remedies() : std::string();
  });
  // What the log sink refers to is about to go.
  SetLogSink(nullptr);
  if (status.ok()) return exit_code;
  if (status.code() == ExitCode::kStopped) {
    // All ranks stop at the same update: an orderly end.
    if (comm.is_root()) Report(status, -1);
  } else if (comm.size() > 1) {
    EndJob(status, comm.rank());
  } else {
    Report(status, -1);
  }
  return static_cast<int>(status.code());
}

}  // namespace dtrain
