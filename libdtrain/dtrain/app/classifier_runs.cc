// classifier_runs.cc - one run a seed, their table, and the way back from a checkpoint to a model.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/app/classifier_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/app/attention_plan_file.h"
#include "dtrain/app/bert_options.h"
#include "dtrain/app/classifier_data.h"
#include "dtrain/app/config.h"
#include "dtrain/app/internal/config_values.h"
#include "dtrain/app/internal/pretrained_shape.h"
#include "dtrain/app/kernel_plans.h"
#include "dtrain/app/memory_plan.h"
#include "dtrain/app/nmt_config.h"
#include "dtrain/app/run_recorder.h"
#include "dtrain/app/version.h"
#include "dtrain/base/file.h"
#include "dtrain/base/log.h"
#include "dtrain/bert.pb.h"
#include "dtrain/comm/root_status.h"
#include "dtrain/train/broadcast.h"
#include "dtrain/train/contract.h"
#include "dtrain/train/pretrained_weights.h"
#include "nlohmann/json.hpp"

namespace dtrain {
namespace {

// Below this many training texts the result depends on the seed (Mosbach et al. 2021, "On the
// Stability of Fine-tuning BERT").
constexpr int64_t kSmallData = 10000;

void Print(const Runtime& runtime, const std::string& text) {
  if (!runtime.comm.is_root()) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void WarnIfSmall(const ClassificationTask& task, const Runtime& runtime) {
  const int64_t rows = task.train_shard().size();
  if (rows >= kSmallData || !runtime.comm.is_root()) return;
  LogWarning(absl::StrFormat(
      "%d training texts are few: results vary from seed to seed; look at several of them with "
      "trainer.seeds=1,2,3",
      rows));
}

absl::StatusOr<std::unique_ptr<ClassificationTask>> MakeTask(const proto::BertConfig& config,
                                                             uint64_t seed,
                                                             const ClassifierData& data,
                                                             Runtime& runtime) {
  ClassificationTaskOptions options = ClassificationTaskOf(config, seed, runtime.device);
  options.train = data.train;
  options.dev = data.dev;
  if (!data.test.empty()) options.test = data.test.front().path;
  DT_ASSIGN_OR_RETURN(std::string vocabulary, ReadWholeFile(config.data().vocabulary()));
  options.files = {{"config.textproto", PrintConfig(config, ConfigFormat::kFull)},
                   {"vocab.txt", std::move(vocabulary)}};
  return ClassificationTask::Create(options, runtime.comm);
}

// The weights to start from, where there are some and the run has not begun. Read by the root.
absl::Status LoadPretrained(const proto::BertModelConfig& config, ParameterSet& parameters,
                            Runtime& runtime) {
  if (config.pretrained().empty()) return absl::OkStatus();
  absl::Status status = absl::OkStatus();
  if (runtime.comm.is_root()) {
    const absl::StatusOr<PretrainedReport> report = LoadPretrainedWeights(
        config.pretrained(), parameters, {.allow_missing = config.allow_missing()});
    status = report.status();
    if (report.ok()) {
      LogInfo(report->Describe());
      Print(runtime, report->Describe() + "\n");
    }
  }
  DT_RETURN_IF_ERROR(ShareRootStatus(status, "load the weights", runtime.comm));
  BroadcastTensors({{parameters.weights()}}, runtime.comm, 0);
  return absl::OkStatus();
}

// That the metrics which steer the run are some that its data has.
absl::Status CheckMetrics(const proto::ClassifierTrainerConfig& trainer,
                          const std::vector<NamedShard>& dev, const ClassificationShardInfo& info) {
  if (trainer.early_stop().patience() > 0 && dev.empty()) {
    return UsageError("trainer.early_stop.patience needs a dev set: give data.dev");
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < std::max<size_t>(dev.size(), 1); ++i) {
    for (const std::string& name : MetricNames(info)) {
      names.push_back(i == 0 ? name : absl::StrCat(dev[i].name, "/", name));
    }
  }
  const std::pair<const char*, std::string> chosen[] = {
      {"trainer.best_metric", trainer.best_metric()},
      {"trainer.early_stop.metric", trainer.early_stop().metric()}};
  for (const auto& [key, metric] : chosen) {
    if (metric.empty() || std::find(names.begin(), names.end(), metric) != names.end()) continue;
    return UsageError(absl::StrFormat("%s is \"%s\", but these texts are measured by %s", key,
                                      metric, absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

absl::Status PrepareAttention(const proto::BertConfig& config, const std::string& run_dir,
                              const BertBatch& batch, Runtime& runtime) {
  const AttentionWorkload workload{.hidden_size = config.model().hidden_size(),
                                   .num_heads = config.model().num_heads(),
                                   .type = internal::DTypeOf(config.trainer().precision()),
                                   .dropout = config.model().attention_dropout(),
                                   .max_length = config.data().max_length(),
                                   .tokens = batch.tokens};
  return PrepareAttentionPlans(AttentionPlanOptionsOf(config.kernels(), run_dir), workload,
                               runtime.device, runtime.comm)
      .status();
}

enum class Seeds { kOne, kSeveral };

// A run of its own, in config.run().run_dir(), with the one seed of the configuration.
absl::StatusOr<TrainResult> RunSeed(const proto::BertConfig& config, Seeds seeds,
                                    Runtime& runtime) {
  const uint64_t seed = config.trainer().seeds_size() > 0 ? config.trainer().seeds(0) : 1;
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
                      RunRecorder::Open("bert_classify", config.run(), config, runtime));
  RunWords words{.unit = "texts",
                 .advice = "try      bert_classify predict data.test=FILE --run_dir"};
  recorder->set_words(words);
  const std::string cache =
      config.data().cache().empty() ? recorder->path() + "/data" : config.data().cache();
  DT_ASSIGN_OR_RETURN(const ClassifierData data,
                      PrepareClassifierData(config.data(), {.cache_dir = cache}, runtime));
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<ClassificationTask> task,
                      MakeTask(config, seed, data, runtime));
  DT_RETURN_IF_ERROR(CheckContract({{"data", task->DataContract()}}, runtime.comm));
  if (seeds == Seeds::kOne) WarnIfSmall(*task, runtime);
  if (config.trainer().shard_optimizer()) {
    DT_RETURN_IF_ERROR(OptimizerShards::CheckDevice(runtime.device));
  }

  const ClassificationShardInfo& info = task->train_shard().info();
  words.has_perplexity = info.label_kind == LabelKind::kClass;
  recorder->set_words(words);
  DT_RETURN_IF_ERROR(CheckMetrics(config.trainer(), data.dev, info));
  const std::string main_metric =
      data.main_metric.empty() ? MetricNames(info)[1] : data.main_metric;
  const ClassifierMemoryPlan memory =
      PlanRun(config, task->model().options(), task->train_shard(), runtime);
  DT_RETURN_IF_ERROR(PrepareAttention(config, recorder->path(), memory.batch, runtime));
  runtime.memory_remedies = [config, model = task->model().options(), memory,
                             device = runtime.device.type] {
    return MemoryRemedies(config, model, memory, device);
  };
  const ContextOptions context_options =
      ClassifierContextOf(config.trainer(), seed, runtime.comm.rank(), memory.recompute);
  DT_RETURN_IF_ERROR(
      PrepareKernels(config.kernels(), recorder->path(), runtime.device, runtime.comm,
                     WarmUpSteps(task->model(), memory.batch, runtime.device, context_options)));
  Context context(runtime.device, context_options);
  TrainerOptions options =
      ClassifierTrainerOf(config, {.run_dir = recorder->path(),
                                   .updates_per_epoch = task->updates_per_epoch(),
                                   .main_metric = main_metric,
                                   .seed = seed});
  DT_RETURN_IF_ERROR(ValidateSchedule(config.optimizer(), options.learning_rate.total_steps,
                                      options.max_seconds > 0.0));
  options.planned_activation_bytes = memory.recompute.peak_bytes;
  // Before the average of the weights begins, from what they are.
  DT_RETURN_IF_ERROR(LoadPretrained(config.model(), task->parameters(), runtime));
  Trainer trainer(*task, runtime.comm, context, options);
  trainer.set_observer(recorder.get());
  trainer.set_stop_flags(&runtime.StopRequests());
  DT_RETURN_IF_ERROR(trainer.Resume(config.run().resume()));
  DT_RETURN_IF_ERROR(recorder->Begin(trainer.state()));
  recorder->OnEvent(trainer.state().step, "memory", memory.Describe());
  absl::StatusOr<TrainResult> result = recorder->Run(trainer);
  DT_RETURN_IF_ERROR(recorder->End(result));
  return result;
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

// "accuracy 0.8750 +- 0.0123 (min 0.8600, max 0.8900)" for each metric of the last evaluations.
absl::Status ReportSeeds(const std::vector<uint64_t>& seeds,
                         const std::vector<TrainResult>& results, const std::string& run_dir,
                         const Runtime& runtime) {
  if (!runtime.comm.is_root() || !results.front().last_evaluation) return absl::OkStatus();
  nlohmann::ordered_json json;
  for (size_t i = 0; i < seeds.size(); ++i) {
    nlohmann::ordered_json run = {{"seed", seeds[i]}, {"step", results[i].state.step}};
    for (const auto& [name, value] : results[i].last_evaluation->metrics) run[name] = value;
    run["best"] = results[i].state.best_metric;
    json["runs"].push_back(run);
  }
  std::string text = absl::StrFormat("\n%d seeds, last evaluations\n", seeds.size());
  for (const auto& [name, first] : results.front().last_evaluation->metrics) {
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
  Print(runtime, text);
  return WriteFileAtomically(run_dir + "/seeds.json", json.dump(2) + "\n");
}

absl::Status RunSeeds(const proto::BertConfig& config, Runtime& runtime) {
  const std::string& run_dir = config.run().run_dir();
  std::error_code error;
  DT_RETURN_IF_ERROR(ShareRootStatus(
      runtime.comm.is_root() && std::filesystem::exists(run_dir + "/cmdline.txt", error)
          ? UsageError(run_dir +
                       ": a run of one seed is there, several need a folder of their own; choose "
                       "another --run_dir, nothing there was changed")
          : absl::OkStatus(),
      "look into the run directory", runtime.comm));
  std::vector<uint64_t> seeds(config.trainer().seeds().begin(), config.trainer().seeds().end());
  std::vector<TrainResult> results;
  for (const uint64_t seed : seeds) {
    proto::BertConfig run = config;
    run.mutable_trainer()->clear_seeds();
    run.mutable_trainer()->add_seeds(seed);
    run.mutable_run()->set_run_dir(absl::StrFormat("%s/seed-%d", run_dir, seed));
    if (run.data().cache().empty()) run.mutable_data()->set_cache(run_dir + "/data");
    if (run.kernels().plan_dir().empty()) run.mutable_kernels()->set_plan_dir(run_dir);
    DT_ASSIGN_OR_RETURN(TrainResult result, RunSeed(run, Seeds::kSeveral, runtime));
    results.push_back(std::move(result));
  }
  return ReportSeeds(seeds, results, run_dir, runtime);
}

}  // namespace

absl::Status TrainClassifier(const proto::BertConfig& given, Runtime& runtime) {
  proto::BertConfig config = given;
  DT_RETURN_IF_ERROR(internal::TakePretrainedShape(config));
  // Before anything is written or read by one rank for the others.
  DT_RETURN_IF_ERROR(CheckContract(
      {{"version", std::string(Version())}, {"configuration", ClassifierContract(config)}},
      runtime.comm));
  if (config.trainer().seeds_size() > 1) return RunSeeds(config, runtime);
  return RunSeed(config, Seeds::kOne, runtime).status();
}

}  // namespace dtrain
