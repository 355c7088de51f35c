// plan_command.cc - `dtrain plan --config=FILE --nodes=N`: a run's speed on hosts nobody has yet.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/config/config.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/launch/run_on_ranks.h"
#include "planning/scaling_plan.h"
#include "planning/scaling_plan_job.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/program_config.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {
namespace {

struct PlanFlags {
  ConfigSources sources;
  std::string program;
  int64_t nodes = 2;
  int64_t ranks_per_node = 1;
  std::string network;
  std::optional<double> latency_us;
  std::string doctor;
  double step_seconds = 0.0;
  double update_seconds = 0.0;
  double flops = 0.0;
  int64_t power_sgd_rank = -1;  // the model's
  double overlap = PlanTimes().overlap;
  std::optional<double> memory_gb;
  std::optional<double> low_rank_gflops;
  bool ring = false;
  bool json = false;

  void AddTo(FlagSet& flags) {
    flags.Add("config", ConfigHelp(), &sources.files);
    flags.Add("program", kProgramHelp, &program);
    flags.Add("nodes", "hosts", &nodes);
    flags.Add("ranks_per_node", "ranks on each", &ranks_per_node);
    flags.Add("network", "a host's line (200Mb, 1Gb, 25Gb) or payload (117MB/s); 1Gb without it",
              &network);
    flags.Add("latency_us", "of a message between hosts, microseconds; 50 without it", &latency_us);
    flags.Add("doctor", "file of dtrain doctor --output: speeds that were measured", &doctor);
    flags.Add("step_seconds", "measured: an update of a rank's share of the batch, on one rank",
              &step_seconds);
    flags.Add("update_seconds", "of it what micro-batches share: the optimizer's part",
              &update_seconds);
    flags.Add("flops", "or floating-point operations per second of a rank, such as 2e11", &flops);
    flags.Add("power_sgd_rank",
              "of the lines with PowerSGD; 0 leaves them out, -1 takes the configuration's or an "
              "eighth of the hidden size",
              &power_sgd_rank);
    flags.Add("overlap", "share of what could hide behind backward that does", &overlap);
    flags.Add("memory_gb",
              "GB/s at which a rank adds and rounds in memory, for 16-bit wires and PowerSGD; "
              "without it what doctor measured, or 10",
              &memory_gb);
    flags.Add("low_rank_gflops",
              "GFLOP/s of a rank in PowerSGD's narrow products; without it what doctor measured, "
              "or 80",
              &low_rank_gflops);
    flags.Add("ring", "flat is a ring, as NCCL's and Horovod's", &ring);
    flags.Add("json", "print one JSON line: bytes, seconds", &json);
  }
  Status Check() const;
};

Status PlanFlags::Check() const {
  DT_RETURN_IF_ERROR(CheckRange("nodes", nodes, 1, 1 << 20));
  DT_RETURN_IF_ERROR(CheckRange("ranks_per_node", ranks_per_node, 1, 1024));
  DT_RETURN_IF_ERROR(CheckRange("power_sgd_rank", power_sgd_rank, -1, 1024));
  if (step_seconds < 0.0 || flops < 0.0 || (step_seconds > 0.0) == (flops > 0.0)) {
    return UsageError(
        "give --step_seconds, the time of an update measured on one rank, or --flops, what a rank "
        "computes per second");
  }
  if (update_seconds < 0.0 || (update_seconds > 0.0 && update_seconds >= step_seconds)) {
    return UsageError("--update_seconds is a part of --step_seconds");
  }
  if (overlap < 0.0 || overlap > 1.0) return UsageError("--overlap is a share, from 0 to 1");
  if (latency_us && *latency_us < 0.0) return UsageError("--latency_us is not negative");
  if (memory_gb && *memory_gb <= 0.0) return UsageError("--memory_gb is more than 0");
  if (low_rank_gflops && *low_rank_gflops <= 0.0) {
    return UsageError("--low_rank_gflops is more than 0");
  }
  return OkStatus();
}

StatusOr<PlanModel> LoadModel(const PlanFlags& flags) {
  DT_ASSIGN_OR_RETURN(const auto config, LoadProgramConfig(flags.sources, flags.program));
  return PlanModelOf(*config);
}

// What of a job is measured or given: the network's speeds and the memory's.
Status Calibrate(const PlanFlags& flags, PlanJob& job) {
  if (!flags.doctor.empty()) {
    // What is given by hand counts more than what doctor saw.
    const int measured = flags.network.empty() ? job.nodes : 1;
    DT_RETURN_IF_ERROR(CalibrateFromDoctor(flags.doctor, measured, job.network, job.times));
  }
  if (!flags.network.empty()) {
    DT_ASSIGN_OR_RETURN(job.network.bytes_per_second, ParseNetwork(flags.network));
  }
  if (flags.latency_us) job.network.latency_seconds = 1e-6 * *flags.latency_us;
  if (flags.memory_gb) job.times.memory_bytes_per_second = 1e9 * *flags.memory_gb;
  if (flags.low_rank_gflops) job.times.low_rank_flops_per_second = 1e9 * *flags.low_rank_gflops;
  return OkStatus();
}

Status PrintPlan(int argc, char** argv, FlagSet& set, PlanFlags& flags) {
  DT_ASSIGN_OR_RETURN(flags.sources.overrides, set.Parse(argc, argv));
  if (set.help_wanted()) {
    std::fputs(set.Help().c_str(), stdout);
    return OkStatus();
  }
  DT_RETURN_IF_ERROR(flags.Check());
  PlanJob job{.nodes = static_cast<int>(flags.nodes),
              .ranks_per_node = static_cast<int>(flags.ranks_per_node),
              .buckets = {},
              .times = {},
              .network = {}};
  DT_RETURN_IF_ERROR(Calibrate(flags, job));
  DT_ASSIGN_OR_RETURN(PlanModel model, LoadModel(flags));
  job.notes = model.NotesOf(job.ranks());
  job.buckets = std::move(model.buckets);
  const double seconds = flags.step_seconds > 0.0 ? flags.step_seconds - flags.update_seconds
                                                  : model.FlopsOfRank(job.ranks()) / flags.flops;
  // Backward has two products for each of forward's.
  job.times.forward_seconds = seconds / 3;
  job.times.backward_seconds = 2 * seconds / 3;
  job.times.update_seconds = flags.update_seconds;
  job.times.overlap = flags.overlap;
  const std::vector<PlanWay> ways = AllWays(
      job, flags.ring ? PlanAlgorithm::kRing : PlanAlgorithm::kFlat,
      flags.power_sgd_rank < 0 ? model.power_sgd_rank : static_cast<int>(flags.power_sgd_rank));
  const std::string text = flags.json ? PlanJson(job, ways) + "\n" : PlanText(job, ways);
  std::fputs(text.c_str(), stdout);
  return OkStatus();
}

}  // namespace

int PlanCommand(int argc, char** argv) {
  PlanFlags flags;
  FlagSet set("dtrain plan --config=FILE --nodes=N --step_seconds=S [KEY.PATH=VALUE ...]",
              "predicts the time of an update, the network's load and what limits it, on N hosts: "
              "flat and hierarchical sums, 32- and 16-bit wires, accumulation, PowerSGD");
  flags.AddTo(set);
  return ReportAndGetExitCode(PrintPlan(argc, argv, set, flags));
}

}  // namespace dtrain
