// estimate_command.cc - `dtrain estimate --config=FILE`: memory, FLOPs and sizes before a run.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <vector>

#include "dtrain/config/config.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/launch/run_on_ranks.h"
#include "planning/estimate.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/measure_updates.h"
#include "tools/dtrain/program_config.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {
namespace {

struct EstimateFlags {
  ConfigSources sources;
  std::string program;
  int64_t ranks = 1;
  double source_length = 0.0;
  double target_length = 0.0;
  double length_deviation = 0.0;
  double flops = 0.0;
  bool json = false;
  bool measure = false;

  void AddTo(FlagSet& flags) {
    flags.Add("config", ConfigHelp(), &sources.files);
    flags.Add("program", kProgramHelp, &program);
    flags.Add("ranks", "ranks of the job, on one host", &ranks);
    flags.Add("source_length",
              "mean tokens of a source sentence, its end included; 0 is the corpus of "
              "data.prepared, or 32. Of a BERT's text; 0 is data.max_length",
              &source_length);
    flags.Add("target_length", "the same of a target sentence", &target_length);
    flags.Add("length_deviation", "standard deviation of the lengths of a BERT's texts",
              &length_deviation);
    flags.Add("flops", "floating-point operations per second of a rank, such as 2e11: for the time",
              &flops);
    flags.Add("measure",
              "train some updates in a temporary folder, and say how long the run will take",
              &measure);
    flags.Add("json", "print one JSON line: bytes, counts", &json);
  }
};

Status PrintFor(const EstimateFlags& flags) {
  DT_ASSIGN_OR_RETURN(const auto config, LoadProgramConfig(flags.sources, flags.program));
  DT_ASSIGN_OR_RETURN(const Estimate estimate,
                      EstimateRun(*config, {.ranks = static_cast<int>(flags.ranks),
                                            .source_length = flags.source_length,
                                            .target_length = flags.target_length,
                                            .length_deviation = flags.length_deviation,
                                            .flops = flags.flops}));
  const std::string text = flags.json ? EstimateJson(estimate) + "\n" : EstimateText(estimate);
  std::fputs(text.c_str(), stdout);
  if (!flags.measure) return OkStatus();
  std::fflush(stdout);
  DT_ASSIGN_OR_RETURN(const MeasuredUpdates measured,
                      MeasureUpdates(estimate.program, flags.sources));
  std::fputs(DescribeDuration(*config, measured).c_str(), stdout);
  return OkStatus();
}

Status PrintEstimate(int argc, char** argv, FlagSet& set, EstimateFlags& flags) {
  DT_ASSIGN_OR_RETURN(flags.sources.overrides, set.Parse(argc, argv));
  if (set.help_wanted()) {
    std::fputs(set.Help().c_str(), stdout);
    return OkStatus();
  }
  DT_RETURN_IF_ERROR(CheckRange("ranks", flags.ranks, 1, 1 << 20));
  if (flags.source_length < 0.0 || flags.target_length < 0.0 || flags.length_deviation < 0.0) {
    return UsageError(
        "--source_length, --target_length and --length_deviation are numbers of tokens, not "
        "negative");
  }
  if (flags.measure && flags.json) return UsageError("--measure has no --json");
  if (flags.flops < 0.0) return UsageError("--flops is not negative");
  return PrintFor(flags);
}

}  // namespace

int EstimateCommand(int argc, char** argv) {
  EstimateFlags flags;
  FlagSet set("dtrain estimate [--config=FILE] [KEY.PATH=VALUE ...]",
              "parameters, memory, FLOPs and checkpoint size of a run of " + ProgramNames("or") +
                  " with that configuration; trains nothing without --measure");
  flags.AddTo(set);
  return ReportAndGetExitCode(PrintEstimate(argc, argv, set, flags));
}

}  // namespace dtrain
