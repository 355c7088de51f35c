// estimate_command.cc - `dtrain estimate --config=FILE`: memory, FLOPs and sizes before a run.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/app/bert_config.h"
#include "dtrain/app/config.h"
#include "dtrain/app/estimate.h"
#include "dtrain/app/flag_set.h"
#include "dtrain/app/run_on_ranks.h"
#include "dtrain/bert.pb.h"
#include "dtrain/nmt.pb.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/translation_flags.h"

namespace dtrain {
namespace {

struct EstimateFlags {
  ConfigSources sources;
  int64_t ranks = 1;
  double source_length = 0.0;
  double target_length = 0.0;
  bool json = false;

  void AddTo(FlagSet& flags) {
    flags.Add("config", "textproto file of nmt_train or bert_classify; may be given several times",
              &sources.files);
    flags.Add("ranks", "ranks of the job, on one host", &ranks);
    flags.Add("source_length",
              "mean tokens of a source sentence, its end included; 0 is the corpus of "
              "data.prepared, or 32. Of a classifier's text; 0 is data.max_length",
              &source_length);
    flags.Add("target_length", "the same of a target sentence", &target_length);
    flags.Add("json", "print one JSON line: bytes, counts", &json);
  }
};

// The sources as the configuration of one program, and how far they were one.
template <typename Config>
struct Attempt {
  Config config;
  absl::Status status = absl::OkStatus();
  size_t sources = 0;  // read before the first that is none

  // `defaults` are the program's own, beneath the sources.
  Attempt(const ConfigSources& given, std::string_view defaults) {
    if (!defaults.empty()) status = MergeConfigText(defaults, "defaults", ".", config);
    const auto read = [&](const std::string& source, auto merge) {
      if (status.ok()) status = merge(source, config);
      if (status.ok()) ++sources;
    };
    for (const std::string& file : given.files) read(file, MergeConfigFile);
    for (const std::string& assignment : given.overrides) read(assignment, ApplyOverride);
  }
};

template <typename Config>
absl::Status Print(const Config& config, const EstimateFlags& flags) {
  DT_ASSIGN_OR_RETURN(const auto estimate,
                      EstimateRun(config, {.ranks = static_cast<int>(flags.ranks),
                                           .source_length = flags.source_length,
                                           .target_length = flags.target_length}));
  const std::string text = flags.json ? EstimateJson(estimate) + "\n" : EstimateText(estimate);
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

// Of the program whose configuration it is: what fits both is nmt_train's.
absl::Status PrintFor(const EstimateFlags& flags) {
  const Attempt<proto::NmtConfig> translation(flags.sources, "");
  if (translation.status.ok()) return Print(translation.config, flags);
  const Attempt<proto::BertConfig> classifier(flags.sources, BertDefaults());
  if (classifier.status.ok()) return Print(classifier.config, flags);
  if (translation.sources > classifier.sources) return translation.status;
  if (translation.sources < classifier.sources) return classifier.status;
  const std::string first(MessageOf(translation.status));
  const std::string second(MessageOf(classifier.status));
  if (first == second) return translation.status;
  return UsageError(absl::StrCat("neither a configuration of nmt_train (", first,
                                 ") nor one of bert_classify (", second, ")"));
}

absl::Status PrintEstimate(int argc, char** argv, FlagSet& set, EstimateFlags& flags) {
  DT_ASSIGN_OR_RETURN(flags.sources.overrides, set.Parse(argc, argv));
  if (set.help_wanted()) {
    std::fputs(set.Help().c_str(), stdout);
    return absl::OkStatus();
  }
  DT_RETURN_IF_ERROR(CheckRange("ranks", flags.ranks, 1, 1 << 20));
  if (flags.source_length < 0.0 || flags.target_length < 0.0) {
    return UsageError("--source_length and --target_length are numbers of tokens, not negative");
  }
  return PrintFor(flags);
}

}  // namespace

int EstimateCommand(int argc, char** argv) {
  EstimateFlags flags;
  FlagSet set("dtrain estimate [--config=FILE] [KEY.PATH=VALUE ...]",
              "parameters, memory, FLOPs and checkpoint size of a run of nmt_train or "
              "bert_classify with that configuration; allocates and trains nothing");
  flags.AddTo(set);
  return ReportAndGetExitCode(PrintEstimate(argc, argv, set, flags));
}

}  // namespace dtrain
