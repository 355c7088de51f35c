// environment.cc - MPI_Init and MPI_Finalize, core binding and thread count.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/environment.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/cpu_isa.h"
#include "dtrain/base/host.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/comm/gather.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/comm/internal/heartbeat_service.h"
#include "dtrain/comm/internal/job_hosts.h"
#include "dtrain/comm/internal/leftover_segments.h"
#include "dtrain/comm/internal/mpi_library.h"
#include "dtrain/comm/internal/network_setup.h"
#include "dtrain/comm/internal/start_limit.h"
#include "dtrain/comm/mpi_communicator.h"
#include "dtrain/comm/self_communicator.h"

namespace dtrain {
namespace {

using internal::MpiLibrary;

const char* Variable(const char* name) { return std::getenv(name); }

// The MPI library, if it is started and has not ended; else null.
MpiLibrary* RunningMpi() {
  MpiLibrary* const mpi = internal::OpenedMpiLibrary();
  return mpi != nullptr && mpi->Phase() == MpiLibrary::Life::kUp ? mpi : nullptr;
}

int AllowedCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return std::max(CPU_COUNT(&cores), 1);
}

// The launcher's daemon, our parent, is not bound: its cores are those the job may use.
void UndoBinding() {
  cpu_set_t cores;
  if (sched_getaffinity(getppid(), sizeof(cores), &cores) != 0) return;
  sched_setaffinity(0, sizeof(cores), &cores);
}

// What CommunicatorOptionsFrom() reads.
constexpr const char* kVariables[] = {"DTRAIN_COMM_TIMEOUT", "DTRAIN_ALLREDUCE", "DTRAIN_NCCL",
                                      "DTRAIN_COMM_RECORD"};

// Launchers hand variables to the ranks of their own host alone, unless they are told to: what is
// set for the first rank holds for all where they have nothing of their own.
void ShareVariables(MpiLibrary& mpi) {
  const MpiLibrary::Handle world = mpi.World();
  const int rank = mpi.Rank(world);
  std::string text;
  for (const char* const name : kVariables) {
    const char* const value = rank == 0 ? std::getenv(name) : nullptr;
    if (value != nullptr) absl::StrAppend(&text, name, "=", value, "\n");
  }
  int bytes = static_cast<int>(text.size());
  mpi.Broadcast(&bytes, sizeof(bytes), 0, world);
  text.resize(static_cast<size_t>(bytes));
  mpi.Broadcast(text.data(), bytes, 0, world);
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const size_t equals = line.find('=');
    setenv(std::string(line.substr(0, equals)).c_str(),
           std::string(line.substr(equals + 1)).c_str(), /*replace=*/0);
  }
}

// What killed jobs left in this host's shared memory.
void ClearSharedMemory() {
  constexpr double kMinAgeSeconds = 60;
  const internal::LeftoverSegments removed =
      internal::RemoveLeftoverSegments("/dev/shm", HostName(), kMinAgeSeconds);
  if (removed.count > 0) {
    LogInfo(absl::StrCat("removed ", removed.count, " segments of killed jobs from /dev/shm (",
                         removed.bytes >> 20, " MiB)"));
  }
}

}  // namespace

StatusOr<std::unique_ptr<Environment>> Environment::Create() {
  std::unique_ptr<Environment> environment(new Environment);
  std::vector<std::string> parent = internal::ParentCommand();
  for (std::string& variable : internal::ParentVariables()) parent.push_back(std::move(variable));
  DT_ASSIGN_OR_RETURN(environment->launch_, DetectLaunch(Variable, parent));
  DT_ASSIGN_OR_RETURN(CommunicatorOptions options, CommunicatorOptionsFrom(Variable));
  DT_ASSIGN_OR_RETURN(const uint16_t port, PortFrom(Variable));
  if (!environment->launch_.warning.empty()) LogWarning(environment->launch_.warning);
  environment->ChooseCores();
  if (environment->launch_.parallel) {
    if (environment->launch_.local_rank == 0) ClearSharedMemory();
    DT_RETURN_IF_ERROR(environment->StartMpi(options.timeout_seconds));
    const StatusOr<CommunicatorOptions> shared = CommunicatorOptionsFrom(Variable);
    // A folder may be on one host alone, and MPI_Finalize would wait for the other hosts' ranks.
    if (!shared.ok()) environment->owns_mpi_ = false;
    DT_RETURN_IF_ERROR(shared.status());
    options = *shared;
  }
  try {
    if (environment->launch_.parallel) {
      environment->world_ = MakeMpiCommunicator(options);
    } else {
      environment->world_ = std::make_unique<SelfCommunicator>(HostName());
    }
    environment->ChooseThreadsAndIsa();
    if (environment->world_->size() > 1) {
      environment->heartbeat_ =
          internal::HeartbeatService::Start(*environment->world_, options, port);
    }
  } catch (const CommError& error) {
    environment->owns_mpi_ = false;  // MPI_Finalize would wait for the ranks that are lost
    return CommunicationError(error.what());
  }
  return environment;
}

void Environment::ChooseCores() {
  if (launch_.bound_by_mpirun) UndoBinding();
  cores_ = AllowedCores();
  // Ranks that wait must leave the core to ranks that work. Open MPI sees that only where it was
  // told to oversubscribe; a user's own setting stays.
  if (launch_.local_size > cores_) setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*replace=*/0);
}

void Environment::ChooseThreadsAndIsa() {
  struct Processor {
    cpu_set_t cores;
    CpuIsa isa;
  };
  Processor mine;
  std::memset(&mine, 0, sizeof(mine));
  sched_getaffinity(0, sizeof(mine.cores), &mine.cores);
  mine.isa = BestCpuIsa();
  const std::vector<Processor> all = AllGather(*world_, mine);
  const auto by_isa = [](const Processor& a, const Processor& b) { return a.isa < b.isa; };
  const auto [least, best] = std::minmax_element(all.begin(), all.end(), by_isa);
  if (least->isa < best->isa) {
    LimitCpuIsa(least->isa);
    if (world_->is_root()) {
      LogWarning(absl::StrCat("the ranks' processors differ: all compute with ",
                              ToAbsl(CpuIsaName(least->isa)), ", the best that ",
                              world_->topology().RankName(static_cast<int>(least - all.begin())),
                              " has, so that their weights stay equal"));
    }
  }
  // Ranks with the same cores share them; ranks that were bound to cores of their own do not.
  int sharing = 0;
  for (int r = 0; r < world_->size(); ++r) {
    const bool here = world_->topology().host(r) == world_->topology().host(world_->rank());
    sharing += here && CPU_EQUAL(&all[static_cast<size_t>(r)].cores, &mine.cores) ? 1 : 0;
  }
  threads_ = launch_.threads > 0 ? launch_.threads : std::max(cores_ / std::max(sharing, 1), 1);
  SetNumThreads(threads_);
}

Status Environment::StartMpi(double timeout_seconds) {
  // UCX, on which some MPI libraries stand, takes signals for itself when it is loaded. Without HUP
  // nohup works; without BUS a file that became shorter is named (base/bus_error.h).
  setenv("UCX_DEBUG_SIGNO", "0", /*replace=*/0);
  setenv("UCX_ERROR_SIGNALS", "ILL,SEGV,FPE", /*replace=*/0);
  DT_ASSIGN_OR_RETURN(MpiLibrary* const mpi, internal::OpenMpiLibrary(Variable));
  if (mpi->Phase() == MpiLibrary::Life::kEnded) {
    return UsageError(
        "MPI has ended in this process and starts once: make one Environment and keep it");
  }
  mpi_version_ = mpi->Version();
  const auto survey = internal::SetUpNetwork(launch_, mpi_version_);
  const internal::StartLimit limit(timeout_seconds,
                                   [this] { return internal::DiagnoseStart(mpi_version_); });
  const bool is_ours = mpi->Phase() == MpiLibrary::Life::kNotStarted;
  try {
    // Only one thread at a time calls MPI: the one that holds its lock.
    const int provided = mpi->InitThread(MpiLibrary::kThreadSerialized);
    owns_mpi_ = is_ours;
    if (provided < MpiLibrary::kThreadSerialized) {
      return UsageError(
          "MPI was started for one thread, and heartbeats and exchanges have theirs: start it by "
          "MPI_Init_thread() with MPI_THREAD_SERIALIZED, or leave it to the Environment");
    }
    ShareVariables(*mpi);
    return CheckWorldSize(launch_, mpi->Size(mpi->World()));
  } catch (const CommError& error) {
    owns_mpi_ = false;
    return CommunicationError(absl::StrCat(error.what(), "; mpirun's output says why"));
  }
}

Environment::~Environment() {
  // MPI_Finalize waits for all ranks and knows no limit: heartbeats go on until it is through.
  if (world_) HeartbeatOf(*world_)->SetPhase(Phase::kEnd);
  world_.reset();
  MpiLibrary* const mpi = RunningMpi();
  if (!owns_mpi_ || mpi == nullptr) return;
  // While an exception unwinds, other ranks may be inside a collective and would never come.
  if (std::uncaught_exceptions() > 0) Abort(ExitCode::kInternal);
  mpi->Finalize();
}

void Environment::Abort(ExitCode exit_code) {
  std::fflush(nullptr);
  if (MpiLibrary* const mpi = RunningMpi(); mpi != nullptr) mpi->Abort(static_cast<int>(exit_code));
  std::_Exit(static_cast<int>(exit_code));
}

}  // namespace dtrain
