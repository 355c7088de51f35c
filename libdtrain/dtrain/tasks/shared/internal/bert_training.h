// bert_training.h - one run of a program that trains on texts, from its task to the result.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_BERT_TRAINING_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_BERT_TRAINING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/config/config.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/launch/run_recorder.h"
#include "dtrain/models/pretrained_weights.h"
#include "dtrain/tasks/shared/attention_plan_file.h"
#include "dtrain/tasks/shared/bert_memory.h"
#include "dtrain/tasks/shared/internal/bert_sections.h"
#include "dtrain/tasks/shared/internal/pretrained_shape.h"
#include "dtrain/tasks/shared/internal/validate_bert.h"
#include "dtrain/train/task.h"
#include "dtrain/train/trainer.h"

namespace dtrain::internal {

// The settings that must be equal on all ranks: all sections except those of paths and display.
template <typename Config>
std::string AgreedSettings(Config config) {
  config.clear_run();
  config.clear_predict();
  config.mutable_kernels()->clear_plan_dir();  // read by one rank
  return WithFullNames(PrintConfig(config, ConfigFormat::kFull));
}
// Checks that all ranks run the same version with the same AgreedSettings(). All ranks call it
// before anything is written, or read by one rank for the others.
Status CheckSettingsAgree(const std::string& agreement, Runtime& runtime);

// UsageError unless the metrics that steer the run are some of `names`. `what`: "answers are".
Status CheckMetricNames(const proto::BertTrainerConfig& trainer,
                        const std::vector<std::string>& names, const char* what);

// The first of trainer.seeds, or 1.
uint64_t SeedOf(const proto::BertTrainerConfig& trainer);

// The files that travel in checkpoints: config.textproto, the vocabulary's, and what is kept of the
// folder `pretrained`.
StatusOr<std::vector<NamedFile>> FilesOf(const google::protobuf::Message& config,
                                         const std::string& vocabulary,
                                         const std::string& pretrained);

// Steps to measure kernels on (tasks/shared/kernel_plans.h).
using WarmUp = std::function<std::function<void()>(const BertBatch&, const ContextOptions&)>;

// WarmUpSteps() of the task's model, which outlives the result.
template <typename Model>
WarmUp WarmUpOf(Model& model, const Device& device) {
  return [&model, device](const BertBatch& batch, const ContextOptions& options) {
    return WarmUpSteps(model, batch, device, options);
  };
}

struct TextTraining {
  TrainingTask& task;
  int64_t updates_per_epoch = 1;
  TextLengths lengths = {};      // of the training texts
  std::string main_metric = {};  // where the configuration names none
  uint64_t seed = 1;
  // The model's attention; the sections and the batch say its lengths.
  AttentionWorkload attention = {};
  BertCosts costs;  // of the task's model
  WarmUp warm_up;
  // Gives the model the weights to start from. Collective. May be null.
  std::function<Status()> load_weights = {};
};

// Trains in the recorder's run directory, from the first weights or from its last checkpoint, to
// the end of the run, and says how that was.
StatusOr<TrainResult> TrainOnTexts(const TextSections& sections, const TextTraining& training,
                                   RunRecorder& recorder, Runtime& runtime);

struct BertTraining {
  TrainingTask& task;
  int64_t updates_per_epoch = 1;
  TextLengths lengths = {};             // of the training texts
  std::string main_metric = {};         // where the configuration names none
  std::vector<std::string> heads = {};  // beginnings of names that pretrained weights may lack
  uint64_t seed = 1;
  // On the root, where weights were loaded: what the program has to say of them. May be null.
  std::function<void(const PretrainedReport&)> on_loaded = {};
  BertCosts costs;  // of the task's model
  WarmUp warm_up;
};

// TrainOnTexts() of a BERT, from the pretrained weights where there are some.
StatusOr<TrainResult> TrainBert(const BertSections& sections, const BertTraining& training,
                                RunRecorder& recorder, Runtime& runtime);

// Checks that the folder of several seeds holds no run of a single seed.
Status CheckSeedsFolder(const std::string& run_dir, Runtime& runtime);

// StoppedError on all ranks where one of them was asked to stop while seeds before this one were
// finished: `done` of them.
Status CheckStopBeforeSeed(uint64_t seed, size_t done, Runtime& runtime);

// Prints "accuracy 0.8750 +- 0.0123 (min 0.8600, max 0.8900)" for each metric of the last
// evaluations, and writes seeds.json.
Status ReportSeeds(const std::vector<uint64_t>& seeds, const std::vector<TrainResult>& results,
                   const std::string& run_dir, const Runtime& runtime);

// The configuration of one seed's run, in a folder of the run directory, with plans of kernels, and
// the data where it is prepared, that all of them share.
template <typename Config>
Config ConfigOfSeed(const Config& config, uint64_t seed) {
  Config run = config;
  const std::string& run_dir = config.run().run_dir();
  run.mutable_trainer()->clear_seeds();
  run.mutable_trainer()->add_seeds(seed);
  run.mutable_run()->set_run_dir(run_dir + "/seed-" + std::to_string(seed));
  if (run.kernels().plan_dir().empty()) run.mutable_kernels()->set_plan_dir(run_dir);
  if constexpr (requires { run.data().cache(); }) {
    if (run.data().cache().empty()) run.mutable_data()->set_cache(run_dir + "/data");
  }
  return run;
}

// Calls `train` with the configuration, or where trainer.seeds lists several once for each of them,
// and reports how far they lie apart. Each is a run of its own, in config.run().run_dir().
// StatusOr<TrainResult> train(const Config&, RunRecorder&, Runtime&).
template <typename Config, typename Train>
Status TrainSeeds(const std::string& program, const Config& config, const Train& train,
                  Runtime& runtime) {
  const auto run = [&](const Config& seed) -> StatusOr<TrainResult> {
    DT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRecorder> recorder,
                        RunRecorder::Open(program, seed.run(), seed, runtime));
    return recorder->Run([&] { return train(seed, *recorder, runtime); });
  };
  if (config.trainer().seeds_size() <= 1) return run(config).status();
  const std::string& run_dir = config.run().run_dir();
  DT_RETURN_IF_ERROR(CheckSeedsFolder(run_dir, runtime));
  const std::vector<uint64_t> seeds(config.trainer().seeds().begin(),
                                    config.trainer().seeds().end());
  std::vector<TrainResult> results;
  for (const uint64_t seed : seeds) {
    DT_RETURN_IF_ERROR(CheckStopBeforeSeed(seed, results.size(), runtime));
    DT_ASSIGN_OR_RETURN(TrainResult result, run(ConfigOfSeed(config, seed)));
    results.push_back(std::move(result));
  }
  return ReportSeeds(seeds, results, run_dir, runtime);
}

// Trains a program of BERT: takes the shape of pretrained weights, makes `check` of the result,
// compares it between ranks, and trains each seed as TrainSeeds() does.
// Status check(const Config&); `train` is that of TrainSeeds().
template <typename Config, typename Check, typename Train>
Status TrainProgram(const std::string& program, const Config& given, const Check& check,
                    const Train& train, Runtime& runtime) {
  Config config = given;
  // Only classifiers read it. What remains is what the pretrained model says, for later ones.
  const bool reads_means = program == "bert_classify";
  if (!reads_means) config.mutable_model()->clear_mean_pooling();
  DT_RETURN_IF_ERROR(LoadPretrainedShape(config));
  if (!reads_means && given.model().mean_pooling() && !config.model().mean_pooling()) {
    return UsageError("model.mean_pooling is for bert_classify; leave it out");
  }
  DT_RETURN_IF_ERROR(RefuseWindows(given.model(), FamilyOf(config.model())));
  DT_RETURN_IF_ERROR(check(config));
  DT_RETURN_IF_ERROR(CheckSettingsAgree(AgreedSettings(config), runtime));
  return TrainSeeds(program, config, train, runtime);
}
// Without checks that need the shape.
template <typename Config, typename Train>
Status TrainProgram(const std::string& program, const Config& given, const Train& train,
                    Runtime& runtime) {
  return TrainProgram(
      program, given, [](const Config&) { return OkStatus(); }, train, runtime);
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_BERT_TRAINING_H_
