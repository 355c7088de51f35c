// bert_training.cc - plans, kernels, weights to start from, and the table of seeds.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/internal/bert_training.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/bert.pb.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/distributed/agreement.h"
#include "dtrain/distributed/broadcast.h"
#include "dtrain/launch/internal/optimizer_config.h"
#include "dtrain/launch/internal/print_on_root.h"
#include "dtrain/launch/run_training.h"
#include "dtrain/launch/version.h"
#include "dtrain/run.pb.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/internal/memory_options.h"
#include "dtrain/tasks/shared/internal/vocabulary_file.h"
#include "dtrain/tasks/shared/kernel_plans.h"
#include "nlohmann/json.hpp"

namespace dtrain::internal {
namespace {

// The weights to start from, where there are some and the run has not begun: later they may be
// gone. Read by the root.
Status LoadPretrained(const BertSections& sections, const BertTraining& training,
                      const std::string& run_dir, Runtime& runtime) {
  ParameterSet& parameters = training.task.parameters();
  const proto::BertModelConfig& config = sections.model;
  if (config.pretrained().empty()) return OkStatus();
  const bool is_begun = runtime.comm.is_root() && WillResume(sections.run.resume(), run_dir);
  if (runtime.comm.AllReduceValue(static_cast<int32_t>(is_begun), ReduceOp::kMax) != 0) {
    return OkStatus();
  }
  Status status = OkStatus();
  if (runtime.comm.is_root()) {
    const StatusOr<PretrainedReport> report =
        LoadPretrainedWeights(config.pretrained(), parameters,
                              {.family = &FamilyOf(config),
                               .may_be_new = training.heads,
                               .allow_missing = config.allow_missing()});
    status = report.status();
    if (report.ok()) {
      LogInfo(report->Describe());
      status = PrintOnRoot(runtime, report->Describe() + "\n");
      if (training.on_loaded) training.on_loaded(*report);
    }
  }
  DT_RETURN_IF_ERROR(ShareRootStatus(status, "load the weights", runtime.comm));
  BroadcastParameters(parameters, runtime.comm);
  return OkStatus();
}

Status PrepareAttention(const TextSections& sections, AttentionWorkload workload,
                        const std::string& run_dir, const BertBatch& batch, Runtime& runtime) {
  workload.type = DTypeOf(sections.trainer.precision());
  workload.max_length = sections.max_length;
  workload.tokens = batch.tokens;
  return PrepareAttentionPlans(AttentionPlanOptionsOf(sections.kernels, run_dir), workload,
                               runtime.device, runtime.comm)
      .status();
}

// Mean and sample standard deviation.
struct Spread {
  double mean = 0.0;
  double deviation = 0.0;
};
Spread SpreadOf(const std::vector<double>& values) {
  Spread spread;
  for (const double value : values) spread.mean += value / static_cast<double>(values.size());
  for (const double value : values) {
    spread.deviation += (value - spread.mean) * (value - spread.mean);
  }
  if (values.size() > 1) {
    spread.deviation = std::sqrt(spread.deviation / static_cast<double>(values.size() - 1));
  }
  return spread;
}

}  // namespace

Status CheckSettingsAgree(const std::string& agreement, Runtime& runtime) {
  return CheckRanksAgree({{"version", std::string(Version())}, {"configuration", agreement}},
                         runtime.comm);
}

Status CheckMetricNames(const proto::BertTrainerConfig& trainer,
                        const std::vector<std::string>& names, const char* what) {
  const std::pair<const char*, std::string> chosen[] = {
      {"trainer.best_metric", trainer.best_metric()},
      {"trainer.early_stop.metric", trainer.early_stop().metric()}};
  for (const auto& [key, metric] : chosen) {
    if (metric.empty() || std::find(names.begin(), names.end(), metric) != names.end()) continue;
    return UsageError(absl::StrFormat("%s is \"%s\", but %s measured by %s", key, metric, what,
                                      absl::StrJoin(names, ", ")));
  }
  return OkStatus();
}

uint64_t SeedOf(const proto::BertTrainerConfig& trainer) {
  return trainer.seeds_size() > 0 ? trainer.seeds(0) : 1;
}

StatusOr<std::vector<NamedFile>> FilesOf(const google::protobuf::Message& config,
                                         const std::string& vocabulary,
                                         const std::string& pretrained) {
  DT_ASSIGN_OR_RETURN(std::vector<NamedFile> files, ReadTokenizerFiles(vocabulary, pretrained));
  files.insert(files.begin(), {"config.textproto", PrintConfig(config, ConfigFormat::kFull)});
  return files;
}

StatusOr<TrainResult> TrainOnTexts(const TextSections& sections, const TextTraining& training,
                                   RunRecorder& recorder, Runtime& runtime) {
  const BertBatch batch = MicroBatchOf(sections.trainer, runtime.comm.size(), training.lengths);
  const ContextOptions context =
      BertContextOf(sections.trainer, training.seed, runtime.comm.rank());
  const MemoryOptions limits = MemoryOptionsOf(sections.trainer, sections.optimizer, context);
  const MemoryPlan memory = PlanRun(limits, training.costs(batch), runtime);
  // Called when the run and its configuration are gone.
  runtime.memory_remedies = [trainer = sections.trainer, max_length = sections.max_length,
                             costs = training.costs, limits, memory, batch,
                             device = runtime.device.type] {
    return BertMemoryRemedies(trainer, limits, memory, costs, batch, max_length, device);
  };
  RunTrainingOptions options{
      .trainer = BertTrainerOf(sections.trainer, sections.optimizer, training.attention.hidden_size,
                               {.run_dir = recorder.path(),
                                .updates_per_epoch = training.updates_per_epoch,
                                .main_metric = training.main_metric,
                                .seed = training.seed}),
      .context = WithRecompute(context, memory.recompute),
      .resume = sections.run.resume(),
      .memory = absl::StrFormat("%s; texts have %.1f tokens on average, with a standard "
                                "deviation of %.1f",
                                memory.Describe(TokensText(batch)), training.lengths.mean,
                                training.lengths.deviation)};
  options.trainer.planned_activation_bytes = memory.recompute.peak_bytes;
  DT_RETURN_IF_ERROR(ValidateSchedule(sections.optimizer, options.trainer.learning_rate.total_steps,
                                      options.trainer.max_seconds > 0.0));
  DT_RETURN_IF_ERROR(ValidateWarmupRatio(sections.optimizer, sections.trainer.warmup_ratio(),
                                         options.trainer.learning_rate.total_steps));
  options.prepare = [&]() -> Status {
    DT_RETURN_IF_ERROR(
        PrepareAttention(sections, training.attention, recorder.path(), batch, runtime));
    DT_RETURN_IF_ERROR(PrepareKernels(sections.kernels, recorder.path(), runtime.device,
                                      runtime.comm, training.warm_up(batch, options.context)));
    // Before the average of the weights begins, from what they are.
    return training.load_weights ? training.load_weights() : OkStatus();
  };
  return RunTraining(training.task, options, recorder, runtime);
}

StatusOr<TrainResult> TrainBert(const BertSections& sections, const BertTraining& training,
                                RunRecorder& recorder, Runtime& runtime) {
  const TextTraining run{
      .task = training.task,
      .updates_per_epoch = training.updates_per_epoch,
      .lengths = training.lengths,
      .main_metric = training.main_metric,
      .seed = training.seed,
      .attention = {.hidden_size = sections.model.hidden_size(),
                    .num_heads = sections.model.num_heads(),
                    .dropout = sections.model.attention_dropout()},
      .costs = training.costs,
      .warm_up = training.warm_up,
      .load_weights = [&] { return LoadPretrained(sections, training, recorder.path(), runtime); }};
  return TrainOnTexts(sections, run, recorder, runtime);
}

Status CheckSeedsFolder(const std::string& run_dir, Runtime& runtime) {
  return ShareRootStatus(runtime.comm.is_root() ? CheckFolderOfSeeds(run_dir) : OkStatus(),
                         "look into the run directory", runtime.comm);
}

Status CheckStopBeforeSeed(uint64_t seed, size_t done, Runtime& runtime) {
  // Until the first run trains, signals end the process by themselves.
  if (done == 0) return OkStatus();
  const bool stops = runtime.StopRequests().stop;
  if (runtime.comm.AllReduceValue(stops ? 1 : 0, ReduceOp::kMax) == 0) return OkStatus();
  return StoppedError(
      absl::StrFormat("stopped on request before seed %d; the same command goes on with it", seed));
}

Status ReportSeeds(const std::vector<uint64_t>& seeds, const std::vector<TrainResult>& results,
                   const std::string& run_dir, const Runtime& runtime) {
  const auto& first_evaluation = results.front().last_evaluation;
  if (!runtime.comm.is_root()) return OkStatus();
  if (!first_evaluation || first_evaluation->metrics.empty()) {
    return PrintOnRoot(runtime, "no dev set, and so no seeds.json\n");
  }
  nlohmann::ordered_json json;
  for (size_t i = 0; i < seeds.size(); ++i) {
    nlohmann::ordered_json run = {{"seed", seeds[i]}, {"step", results[i].state.step}};
    for (const auto& [name, value] : results[i].last_evaluation->metrics) run[name] = value;
    if (results[i].state.best_step >= 0) run["best"] = results[i].state.best_metric;
    json["runs"].push_back(run);
  }
  std::string text = absl::StrFormat("\n%d seeds, last evaluations\n", seeds.size());
  for (const auto& [name, first] : first_evaluation->metrics) {
    std::vector<double> values;
    for (const TrainResult& result : results) {
      values.push_back(result.last_evaluation->Metric(name));
    }
    const Spread spread = SpreadOf(values);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    absl::StrAppendFormat(&text, "%-22s %.4f +- %.4f  (min %.4f, max %.4f)\n", name, spread.mean,
                          spread.deviation, *low, *high);
    json["metrics"][name] = {
        {"mean", spread.mean}, {"deviation", spread.deviation}, {"min", *low}, {"max", *high}};
  }
  absl::StrAppend(&text, "written to ", run_dir, "/seeds.json\n");
  DT_RETURN_IF_ERROR(
      WriteFileAtomically(run_dir + "/seeds.json", internal::JsonText(json, 2) + "\n"));
  return PrintOnRoot(runtime, text);
}

}  // namespace dtrain::internal
