// bert_training.h - one run of a program that trains a BERT, from its task to the result.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_APP_INTERNAL_BERT_TRAINING_H_
#define DTRAIN_APP_INTERNAL_BERT_TRAINING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/app/config.h"
#include "dtrain/app/internal/config_values.h"
#include "dtrain/app/memory_plan.h"
#include "dtrain/app/run_recorder.h"
#include "dtrain/app/runtime.h"
#include "dtrain/train/task.h"
#include "dtrain/train/trainer.h"

namespace dtrain::proto {
class BertModelConfig;
class BertTrainerConfig;
class KernelConfig;
class OptimizerConfig;
class RunConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

// What must be equal on all ranks: every section but those of paths and display.
template <typename Config>
std::string BertContract(Config config) {
  config.clear_run();
  config.clear_predict();
  config.mutable_kernels()->clear_plan_dir();  // read by one rank
  return WithFullNames(PrintConfig(config, ConfigFormat::kFull));
}

// The sections of a configuration; it outlives them.
struct BertSections {
  const proto::BertModelConfig& model;
  const proto::OptimizerConfig& optimizer;
  const proto::BertTrainerConfig& trainer;
  const proto::KernelConfig& kernels;
  const proto::RunConfig& run;
  int64_t max_length;  // of a text
};
template <typename Config>
BertSections SectionsOf(const Config& config) {
  return {config.model(),   config.optimizer(), config.trainer(),
          config.kernels(), config.run(),       config.data().max_length()};
}

struct BertTraining {
  TrainingTask& task;
  int64_t updates_per_epoch = 1;
  TextLengths lengths = {};             // of the training texts
  std::string main_metric = {};         // where the configuration names none
  std::vector<std::string> heads = {};  // beginnings of names that pretrained weights may lack
  uint64_t seed = 1;
  // Of the task's model: what it costs, and steps to measure kernels on (app/kernel_plans.h).
  std::function<ModelCosts(const BertBatch&)> costs;
  std::function<std::function<void()>(const BertBatch&, const ContextOptions&)> warm_up;
};

// Trains in the recorder's run directory, from the pretrained weights or from its last checkpoint,
// to the end of the run, and says how that was.
absl::StatusOr<TrainResult> TrainBert(const BertSections& sections, const BertTraining& training,
                                      RunRecorder& recorder, Runtime& runtime);

// That no run of one seed is in the folder of several.
absl::Status CheckSeedsFolder(const std::string& run_dir, Runtime& runtime);

// The configuration of one seed's run, in a folder of the run directory, with plans of kernels that
// all of them share.
template <typename Config>
Config ConfigOfSeed(const Config& config, uint64_t seed) {
  Config run = config;
  const std::string& run_dir = config.run().run_dir();
  run.mutable_trainer()->clear_seeds();
  run.mutable_trainer()->add_seeds(seed);
  run.mutable_run()->set_run_dir(run_dir + "/seed-" + std::to_string(seed));
  if (run.kernels().plan_dir().empty()) run.mutable_kernels()->set_plan_dir(run_dir);
  return run;
}

// Prints "accuracy 0.8750 +- 0.0123 (min 0.8600, max 0.8900)" for each metric of the last
// evaluations, and writes seeds.json.
absl::Status ReportSeeds(const std::vector<uint64_t>& seeds,
                         const std::vector<TrainResult>& results, const std::string& run_dir,
                         const Runtime& runtime);

}  // namespace dtrain::internal

#endif  // DTRAIN_APP_INTERNAL_BERT_TRAINING_H_
