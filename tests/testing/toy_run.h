// toy_run.h - a short run of the real trainer on one of several threads, and what it gave.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_TOY_RUN_H_
#define DTRAIN_TESTING_TOY_RUN_H_

#include <string>
#include <vector>

#include "dtrain/train/trainer.h"
#include "testing/test_device.h"

namespace dtrain {

struct ToyResult : TrainObserver {
  ExitCode exit_code = ExitCode::kDone;
  std::string message = {};
  std::vector<float> weights = {};
  std::vector<double> losses = {}, nlls = {}, epochs = {}, learning_rates = {};
  std::vector<int64_t> rows = {};  // so far
  std::vector<EvaluationResult> evaluations = {};
  int64_t skipped = 0;  // updates
  int64_t graphs_recorded = 0, graphs_repeated = 0;

  int64_t stop_at = -1;
  StopFlags* flags = nullptr;
  void OnStep(const StepRecord& record) override {
    losses.push_back(record.loss);
    nlls.push_back(record.nll);
    epochs.push_back(record.epoch);
    learning_rates.push_back(record.learning_rate);
    rows.push_back(record.target_tokens);
    if (record.step == stop_at) flags->stop = true;
  }
  void OnEvaluation(const EvaluationRecord& record) override {
    evaluations.push_back(*record.result);
  }
};

inline ToyResult FailedResult(const Status& status) {
  ToyResult result;
  result.exit_code = status.code();
  result.message = status.message();
  return result;
}

// A whole run of `task`. At update `stop_at` a stop is asked for.
inline ToyResult TrainToyTask(TrainingTask& task, const TrainerOptions& options,
                              ContextOptions context, const Device& device, int64_t stop_at,
                              Communicator& comm) {
  ToyResult result;
  context.rank = comm.rank();
  Context ctx(device, context);
  Trainer trainer(task, comm, ctx, options);
  StopFlags flags;
  result.stop_at = stop_at;
  result.flags = &flags;
  trainer.set_observer(&result);
  trainer.set_stop_flags(&flags);
  Status status = trainer.Resume("auto");
  if (status.ok()) status = trainer.Run().status();
  result.exit_code = status.code();
  result.message = status.message();
  result.weights = testing::ElementsOf<float>(task.parameters().weights());
  result.skipped = trainer.state().skipped;
  result.graphs_recorded = trainer.graphs().num_recorded();
  result.graphs_repeated = trainer.graphs().num_repeated();
  return result;
}

}  // namespace dtrain

#endif  // DTRAIN_TESTING_TOY_RUN_H_
