// launch.cc - what mpirun, srun and other launchers leave in the environment.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/launch.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain {
namespace {

constexpr double kLongestTimeout = 1e8;  // three years

int NumberOr(const GetEnv& get_env, const char* name, int otherwise) {
  const char* const text = get_env(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// Nested levels may be listed, "4,2": the first counts.
StatusOr<int> ThreadsFrom(const GetEnv& get_env) {
  const char* const text = get_env("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  const std::string_view first = std::string_view(text).substr(0, std::string_view(text).find(','));
  int value = 0;
  if (!absl::SimpleAtoi(ToAbsl(first), &value) || value < 1) {
    return UsageError(absl::StrFormat(
        "OMP_NUM_THREADS=%s is not a number of threads: set it to 1 or more, or unset it", text));
  }
  return value;
}

StatusOr<AllReduceAlgorithm> AlgorithmFrom(const GetEnv& get_env) {
  const char* const text = get_env("DTRAIN_ALLREDUCE");
  const std::string_view name = text == nullptr ? "auto" : text;
  if (name == "auto") return AllReduceAlgorithm::kAuto;
  if (name == "flat") return AllReduceAlgorithm::kFlat;
  if (name == "hierarchical") return AllReduceAlgorithm::kHierarchical;
  if (name == "measure") return AllReduceAlgorithm::kMeasure;
  return UsageError(absl::StrFormat(
      "DTRAIN_ALLREDUCE=%s is no algorithm: set it to auto, flat, hierarchical or measure", text));
}

// Open MPI 4 tells the ranks that it bound them, and the policy if somebody asked for one. Open MPI
// 5, whose launcher is PRRTE, tells neither, but its own command and environment do.
bool IsBoundByDefault(const GetEnv& get_env, const std::vector<std::string>& parent) {
  if (get_env("PRTE_LAUNCHED") == nullptr) {
    return get_env("OMPI_MCA_orte_bound_at_launch") != nullptr &&
           get_env("OMPI_MCA_hwloc_base_binding_policy") == nullptr;
  }
  constexpr std::string_view kRequests[] = {"--bind-to",
                                            "-bind-to",
                                            "--map-by",
                                            "-map-by",
                                            "--rankfile",
                                            "--cpu-list",
                                            "--cpu-set",
                                            "hwloc_default_binding_policy",
                                            "rmaps_default_mapping_policy",
                                            "PRTE_MCA_hwloc_default_binding_policy",
                                            "PRTE_MCA_rmaps_default_mapping_policy"};
  return std::none_of(parent.begin(), parent.end(), [&](const std::string& word) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    return std::count(std::begin(kRequests), std::end(kRequests), name) > 0;
  });
}

}  // namespace

StatusOr<Launch> DetectLaunch(const GetEnv& get_env, const std::vector<std::string>& parent) {
  Launch launch;
  DT_ASSIGN_OR_RETURN(launch.threads, ThreadsFrom(get_env));
  // SLURM_NTASKS is also set for a batch script's own commands; these variables only by srun.
  const int srun_tasks =
      get_env("SLURM_STEP_ID") != nullptr ? NumberOr(get_env, "SLURM_STEP_NUM_TASKS", 0) : 0;
  if (get_env("OMPI_COMM_WORLD_SIZE") != nullptr) {
    launch.launcher = "mpirun";
    launch.size = NumberOr(get_env, "OMPI_COMM_WORLD_SIZE", 0);
    launch.local_size = std::max(NumberOr(get_env, "OMPI_COMM_WORLD_LOCAL_SIZE", 1), 1);
    launch.local_rank = NumberOr(get_env, "OMPI_COMM_WORLD_LOCAL_RANK", 0);
    launch.bound_by_mpirun = IsBoundByDefault(get_env, parent);
  } else if (get_env("PMI_RANK") != nullptr && get_env("MPI_LOCALNRANKS") != nullptr) {
    // Hydra, the mpirun of MPICH. It binds only where it is told to.
    launch.launcher = "mpirun";
    launch.size = NumberOr(get_env, "PMI_SIZE", 0);
    launch.local_size = std::max(NumberOr(get_env, "MPI_LOCALNRANKS", 1), 1);
    launch.local_rank = NumberOr(get_env, "MPI_LOCALRANKID", 0);
  } else if (get_env("PMIX_RANK") != nullptr || get_env("PMI_RANK") != nullptr) {
    launch.launcher = srun_tasks > 0 ? "srun" : "PMI";
    launch.size = srun_tasks > 0 ? srun_tasks : NumberOr(get_env, "PMI_SIZE", 0);
    const bool is_first = NumberOr(get_env, "SLURM_PROCID", 0) == 0;
    if (srun_tasks > 1 && is_first && get_env("PMIX_RANK") == nullptr) {
      launch.warning =
          "srun offers its tasks PMI-2, which few builds of Open MPI know: if MPI does not start, "
          "use srun --mpi=pmix";
    }
  } else if (srun_tasks > 1 && get_env("SLURM_PROCID") != nullptr) {
    return UsageError(absl::StrFormat(
        "srun started %d tasks without MPI, so they would not find each other: use srun "
        "--mpi=pmix",
        srun_tasks));
  }
  launch.parallel = !launch.launcher.empty();
  return launch;
}

Status CheckWorldSize(const Launch& launch, int mpi_size) {
  if (launch.size == 0 || launch.size == mpi_size) return OkStatus();
  const std::string found = absl::StrFormat(
      "%s started %d ranks, but MPI found %d: ", launch.launcher, launch.size, mpi_size);
  return UsageError(found + (launch.launcher == "srun"
                                 ? "use srun --mpi=pmix"
                                 : "it opened another MPI library than the launcher's; set "
                                   "DTRAIN_MPI_LIBRARY to the file of that library"));
}

StatusOr<uint16_t> PortFrom(const GetEnv& get_env) {
  const char* const text = get_env("DTRAIN_PORT");
  if (text == nullptr) return uint16_t{0};
  int port = 0;
  if (!absl::SimpleAtoi(text, &port) || port < 1024 || port > 65534) {
    return UsageError(
        absl::StrFormat("DTRAIN_PORT=%s is not a port: set it to a number from 1024 to 65534, and "
                        "open this UDP port and the next one between the hosts",
                        text));
  }
  return static_cast<uint16_t>(port);
}

StatusOr<CommunicatorOptions> CommunicatorOptionsFrom(const GetEnv& get_env) {
  CommunicatorOptions options;
  if (const char* const text = get_env("DTRAIN_COMM_TIMEOUT"); text != nullptr) {
    double seconds = 0;
    if (!absl::SimpleAtod(text, &seconds) || !(seconds > 0)) {
      return UsageError(absl::StrFormat(
          "DTRAIN_COMM_TIMEOUT=%s is not a time: set it to a number of seconds above 0", text));
    }
    // Who wants no limit says inf or a huge number; clocks have one.
    options.timeout_seconds = std::min(seconds, kLongestTimeout);
  }
  if (const char* const text = get_env("DTRAIN_COMM_RECORD"); text != nullptr) {
    std::error_code error;
    if (*text != '\0' && !std::filesystem::is_directory(text, error)) {
      return UsageError(absl::StrFormat(
          "DTRAIN_COMM_RECORD=%s is no folder on this host: make it, or unset the variable", text));
    }
    options.record_directory = text;
  }
  if (const char* const text = get_env("DTRAIN_NCCL"); text != nullptr) {
    if (text != std::string_view("auto") && text != std::string_view("off")) {
      return UsageError(absl::StrFormat(
          "DTRAIN_NCCL=%s is neither auto nor off: with off, GPUs' gradients travel through the "
          "host's memory",
          text));
    }
    options.nccl = text == std::string_view("auto");
  }
  DT_ASSIGN_OR_RETURN(options.algorithm, AlgorithmFrom(get_env));
  return options;
}

}  // namespace dtrain
