// broken_weights_test.cc - a run that never had good weights ends with an error and leaves nothing.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "dtrain/files/checkpoint_directory.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Its first update finds a weight that is NaN.
ToyRun BrokenRun(const ToyCorpus& corpus, const TemporaryFolder& folder, int64_t updates) {
  ToyRun run = MakeToyRun(corpus);
  run.ranks = 2;
  run.trainer.max_steps = updates;
  run.trainer.checkpoint_dir = folder.File("ckpt");
  run.trainer.best_metric = "bleu";
  run.resume = "auto";
  run.before_update = [](int64_t step, ParameterSet& parameters) {
    if (step == 0) *parameters.weights().data<float>() = kNaN;
  };
  // A metric of decisions is a number whatever the weights are.
  run.after_evaluation = [](EvaluationResult& result) {
    for (auto& [name, value] : result.metrics) {
      if (name == "bleu") value = 12.0;
    }
  };
  return run;
}

TEST_CASE("a run whose every update was skipped ends with exit code 4 and saves nothing") {
  const ToyCorpus corpus(70);
  for (const int64_t updates : {1, 3}) {
    for (const float ema_decay : {0.0f, 0.9f}) {
      INFO(updates << " updates, average " << ema_decay);
      const TemporaryFolder folder;
      ToyRun run = BrokenRun(corpus, folder, updates);
      run.trainer.adam.ema_decay = ema_decay;
      for (const ToyResult& result : TrainToy(run)) {
        // One update by itself may be an odd batch, of which good averages know nothing.
        const bool is_known = updates > 1 || ema_decay == 0.0f;
        CHECK(result.exit_code == (is_known ? ExitCode::kDiverged : ExitCode::kDone));
        CHECK(result.state.optimizer_steps == 0);
        if (!is_known) continue;
        CHECK(result.state.best_step == -1);
        CHECK_THAT(result.message, Catch::Contains("max_steps is reached") &&
                                       Catch::Contains("look at the weights and the data that"));
        CHECK(ListCheckpoints(folder.File("ckpt")).empty());
      }
    }
  }
}

TEST_CASE("an evaluation whose loss is NaN chooses no best checkpoint, whatever its metric is") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = BrokenRun(corpus, folder, 4);
  run.before_update = nullptr;
  run.trainer.eval_every = {PeriodUnit::kUpdates, 2};
  int evaluations = 0;
  run.ranks = 1;
  run.after_evaluation = [&](EvaluationResult& result) {
    ++evaluations;
    for (auto& [name, value] : result.metrics) {
      if (name == "loss" && evaluations == 1) value = kNaN;
      if (name == "bleu") value = 13.0 - evaluations;
    }
  };
  const ToyResult result = TrainToy(run)[0];
  CHECK(evaluations == 2);
  CHECK(result.exit_code == ExitCode::kDone);
  CHECK(result.state.best_step == 4);
  CHECK(result.state.best_metric == 11.0);
}

TEST_CASE("a stop before the first good update saves nothing, and the same command begins anew") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = BrokenRun(corpus, folder, 9);
  StopFlags flags;
  run.stop_flags = &flags;
  run.before_update = [&flags](int64_t step, ParameterSet& parameters) {
    if (step == 0) *parameters.weights().data<float>() = kNaN;
    if (step == 2) flags.stop = true;
  };
  for (const ToyResult& result : TrainToy(run)) {
    CHECK(result.exit_code == ExitCode::kStopped);
    CHECK_THAT(result.message, Catch::Contains("nothing is saved of this step: the same command "
                                               "begins anew"));
  }
  CHECK(ListCheckpoints(folder.File("ckpt")).empty());
}

}  // namespace
}  // namespace dtrain
