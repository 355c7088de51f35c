// broken_weights_test.cc - what a run does, says and saves when gradients are not numbers.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
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

TEST_CASE("gradients that stay NaN end the run with exit code 4 and keep its checkpoint") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 2);
  run.trainer.max_steps = 100;
  run.trainer.checkpoint_every = {PeriodUnit::kUpdates, 3};
  run.before_update = [](int64_t step, ParameterSet& parameters) {
    if (step == 4) {
      *parameters.weights().data<float>() = kNaN;
    }
  };
  for (const ToyResult& result : TrainToy(run)) {
    CHECK(result.exit_code == ExitCode::kDiverged);
    CHECK(result.state.step == 4 + 20);
    CHECK(result.state.optimizer_steps == 4);
    CHECK_THAT(result.message, Catch::Contains("the gradients of 20 updates in a row hold NaN") &&
                                   Catch::Contains("lower optimizer.learning_rate") &&
                                   !Catch::Contains("trainer.precision=fp32"));
  }
  // No checkpoint with NaN pushed out the good one.
  const auto checkpoint = FindLatestGood(folder.File("ckpt"));
  REQUIRE(checkpoint.ok());
  CHECK((*checkpoint)->step() == 4);  // the best one so far
}

TEST_CASE("weights that give no finite gradients are not saved when the run is stopped or ends") {
  const ToyCorpus corpus(70);
  for (const auto& [is_stopped, ema_decay] :
       {std::pair(true, 0.9f), std::pair(false, 0.9f), std::pair(false, 0.0f)}) {
    const TemporaryFolder folder;
    ToyRun run = FullToyRun(corpus, folder, 2);
    run.trainer.adam.ema_decay = ema_decay;
    run.trainer.max_steps = 7;
    StopFlags flags;
    run.stop_flags = &flags;
    run.before_update = [&flags, stops = is_stopped](int64_t step, ParameterSet& parameters) {
      if (step == 4) {
        *parameters.weights().data<float>() = kNaN;
      }
      if (step == 5 && stops) flags.stop = true;
    };
    for (const ToyResult& result : TrainToy(run)) {
      CHECK(result.exit_code == (is_stopped ? ExitCode::kStopped : ExitCode::kDiverged));
      CHECK_THAT(result.message, Catch::Contains("nothing is saved"));
      CHECK(result.state.step == (is_stopped ? 6 : 7));
    }
    CHECK(ListCheckpoints(folder.File("ckpt")).back() == 4);
    // The same command, without what broke it, goes on from there.
    run.before_update = nullptr;
    run.stop_flags = nullptr;
    for (const ToyResult& result : TrainToy(run)) {
      CHECK(result.exit_code == ExitCode::kDone);
      CHECK(result.state.skipped == 0);
    }
  }
}

TEST_CASE(
    "a stop behind a single skipped update is saved, and the next run names that checkpoint") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 2);
  run.trainer.max_steps = 100;
  StopFlags flags;
  run.stop_flags = &flags;
  run.before_update = [&](int64_t step, ParameterSet& parameters) {
    if (step == 4) {
      *parameters.weights().data<float>() = kNaN;
      flags.stop = true;
    }
  };
  CHECK(TrainToy(run)[0].exit_code == ExitCode::kStopped);
  CHECK(ListCheckpoints(folder.File("ckpt")).back() == 5);
  run.before_update = nullptr;
  run.stop_flags = nullptr;
  const ToyResult resumed = TrainToy(run)[0];
  CHECK(resumed.exit_code == ExitCode::kDiverged);
  CHECK_THAT(resumed.message, Catch::Contains("delete the checkpoint of step 5"));
}

TEST_CASE("a run that diverges just behind its last checkpoint says that it may be broken too") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 2);
  run.trainer.max_steps = 100;
  run.trainer.checkpoint_every = {PeriodUnit::kUpdates, 1};
  run.before_update = [](int64_t step, ParameterSet& parameters) {
    if (step == 5) {
      *parameters.weights().data<float>() = kNaN;
    }
  };
  CHECK_THAT(TrainToy(run)[0].message, Catch::Contains("delete the checkpoint of step 5"));
}

TEST_CASE("one rank with bad gradients makes all ranks skip that update") {
  const ToyCorpus corpus(70);
  ToyRun run = MakeToyRun(corpus);
  run.ranks = 2;
  BreakOneRank(run);
  const std::vector<ToyResult> results = TrainToy(run);
  for (const ToyResult& result : results) {
    CHECK(result.reason == "max_steps");
    CHECK(result.state.skipped == 1);
    CHECK(result.weights == results[0].weights);
  }
}

}  // namespace
}  // namespace dtrain
