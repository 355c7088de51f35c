// resume_test.cc - a run that stops and goes on is the run that never stopped, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

void CheckSameBits(const ToyResult& actual, const ToyResult& expected) {
  CHECK(actual.exit_code == ExitCode::kDone);
  CHECK(actual.weights == expected.weights);
  CHECK(actual.first_moments == expected.first_moments);
  CHECK(actual.second_moments == expected.second_moments);
  CHECK(actual.average == expected.average);
  CHECK(actual.state.step == expected.state.step);
  CHECK(actual.state.optimizer_steps == expected.state.optimizer_steps);
  CHECK(actual.state.position == expected.state.position);
  CHECK(actual.state.target_tokens == expected.state.target_tokens);
  CHECK(actual.state.best_step == expected.state.best_step);
  CHECK(actual.state.best_metric == expected.state.best_metric);
}

TEST_CASE("stop and resume is never stopping, bit for bit") {
  const ToyCorpus corpus(70);
  for (const int ranks : {1, 2}) {
    const TemporaryFolder whole_folder;
    const ToyResult whole = TrainToy(FullToyRun(corpus, whole_folder, ranks))[0];
    REQUIRE(whole.exit_code == ExitCode::kDone);
    CHECK(whole.state.position.epoch > 0);
    CHECK(whole.weights != whole.average);
    for (const int64_t stop : {1, 3, 7}) {
      INFO(ranks << " ranks, stopped in update " << stop + 1);
      const TemporaryFolder folder;
      ToyRun run = FullToyRun(corpus, folder, ranks);
      StopFlags flags;
      StopAt(run, stop, flags);
      const std::vector<ToyResult> stopped = TrainToy(run);
      for (const ToyResult& result : stopped) {
        CHECK(result.exit_code == ExitCode::kStopped);
        CHECK(result.state.step == stop + 1);
      }
      CHECK_THAT(stopped[0].message,
                 Catch::Contains("stopped on request at step " + std::to_string(stop + 1)));
      const std::vector<ToyResult> resumed = TrainToy(FullToyRun(corpus, folder, ranks));
      for (const ToyResult& result : resumed) {
        CHECK(result.positions.size() == static_cast<size_t>(kFullToySteps - stop - 1));
        CheckSameBits(result, whole);
      }
      // An evaluation that was due when the run stopped is made up for.
      std::vector<EvaluationResult> evaluations = stopped[0].evaluations;
      evaluations.insert(evaluations.end(), resumed[0].evaluations.begin(),
                         resumed[0].evaluations.end());
      REQUIRE(evaluations.size() == whole.evaluations.size());
      for (size_t i = 0; i < evaluations.size(); ++i) {
        CHECK(evaluations[i].metrics == whole.evaluations[i].metrics);
      }
    }
  }
}

TEST_CASE("so it is in bfloat16 and with recomputation") {
  const ToyCorpus corpus(70);
  const auto make = [&](const TemporaryFolder& folder) {
    ToyRun run = FullToyRun(corpus, folder, 2);
    run.task.compute_type = DType::kBFloat16;
    run.recompute = Recompute::kFull;
    run.trainer.reducer.wire_type = DType::kBFloat16;
    return run;
  };
  const TemporaryFolder whole_folder, folder;
  const ToyResult whole = TrainToy(make(whole_folder))[0];
  ToyRun run = make(folder);
  StopFlags flags;
  StopAt(run, 5, flags);
  CHECK(TrainToy(run)[0].exit_code == ExitCode::kStopped);
  CheckSameBits(TrainToy(make(folder))[0], whole);
}

TEST_CASE("so it is with each kind of optimizer") {
  using Ratio = AdamConfig::TrustRatio;
  const ToyCorpus corpus(70);
  for (const AdamConfig& adam :
       {AdamConfig{.weight_decay = 0.01f, .bias_correction = false},
        AdamConfig{.weight_decay = 0.01f, .trust_ratio = Ratio::kDecayed, .ema_decay = 0.9f},
        AdamConfig{.weight_decay = 0.01f, .trust_ratio = Ratio::kAll}}) {
    const auto make = [&](const TemporaryFolder& folder) {
      ToyRun run = FullToyRun(corpus, folder, 2);
      run.trainer.adam = adam;
      return run;
    };
    const TemporaryFolder whole_folder, folder;
    const ToyResult whole = TrainToy(make(whole_folder))[0];
    ToyRun run = make(folder);
    StopFlags flags;
    StopAt(run, 5, flags);
    CHECK(TrainToy(run)[0].exit_code == ExitCode::kStopped);
    const std::vector<ToyResult> resumed = TrainToy(make(folder));
    CheckSameBits(resumed[0], whole);
    CheckSameBits(resumed[1], whole);
  }
}

TEST_CASE("a run that died goes on from its last checkpoint and ends with the same bits") {
  const ToyCorpus corpus(70);
  const TemporaryFolder whole_folder;
  const ToyResult whole = TrainToy(FullToyRun(corpus, whole_folder, 2))[0];
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 2);
  run.before_update = [](int64_t step, ParameterSet&) {
    if (step == 8) throw CheckError("this rank dies");
  };
  CHECK_THROWS(TrainToy(run));
  CHECK(ListCheckpoints(folder.File("ckpt")).back() == 8);  // the best one so far
  CheckSameBits(TrainToy(FullToyRun(corpus, folder, 2))[0], whole);
}

TEST_CASE("resumed on another number of ranks, a run reads the same samples in the same order") {
  const ToyCorpus corpus(70);
  const TemporaryFolder whole_folder;
  ToyRun run = FullToyRun(corpus, whole_folder, 1);
  const auto smoothly = [](ToyRun& r) {
    r.trainer.adam.epsilon = 1e-3f;  // no whole steps of mere rounding
  };
  smoothly(run);
  const ToyResult whole = TrainToy(run)[0];
  for (const auto& [first, second] : {std::pair(1, 2), std::pair(2, 1), std::pair(4, 2)}) {
    INFO(first << " ranks, then " << second);
    const TemporaryFolder folder;
    ToyRun before = FullToyRun(corpus, folder, first);
    smoothly(before);
    StopFlags flags;
    StopAt(before, 4, flags);
    const ToyResult stopped = TrainToy(before)[0];
    ToyRun after = FullToyRun(corpus, folder, second);
    smoothly(after);
    const ToyResult resumed = TrainToy(after)[0];
    std::vector<DataPosition> positions = stopped.positions;
    positions.insert(positions.end(), resumed.positions.begin(), resumed.positions.end());
    CHECK(positions == whole.positions);
    std::vector<int64_t> tokens = stopped.tokens;
    tokens.insert(tokens.end(), resumed.tokens.begin(), resumed.tokens.end());
    CHECK(tokens == whole.tokens);
    // The same samples: the same losses.
    std::vector<double> losses = stopped.losses;
    losses.insert(losses.end(), resumed.losses.begin(), resumed.losses.end());
    REQUIRE(losses.size() == whole.losses.size());
    for (size_t i = 0; i < losses.size(); ++i) {
      CHECK(losses[i] == Approx(whole.losses[i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("the same run twice gives the same bits") {
  const ToyCorpus corpus(70);
  for (const int ranks : {1, 2}) {
    const TemporaryFolder first, second;
    const ToyResult one = TrainToy(FullToyRun(corpus, first, ranks))[0];
    CheckSameBits(TrainToy(FullToyRun(corpus, second, ranks))[0], one);
    const std::string model = "ckpt/last/model.safetensors";
    CHECK(ReadTestFile(first.File(model)) == ReadTestFile(second.File(model)));
    CHECK(ReadTestFile(first.File(model)).size() > 1000);
  }
}

TEST_CASE("a run does not go on with other data, a new run may start from its weights") {
  const ToyCorpus corpus(70);
  const ToyCorpus other(20, 6, 2, corpus.path() + "/vocab.spm");
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 2);
  run.trainer.max_steps = 3;
  const ToyResult first = TrainToy(run)[0];
  REQUIRE(first.state.position.sample > 20);
  run.trainer.max_steps = 8;
  run.task.data_dir = other.path();
  for (const ToyResult& result : TrainToy(run)) CHECK(result.exit_code == ExitCode::kStorage);
  CHECK_THAT(TrainToy(run)[0].message, Catch::Contains("pairs 70") && Catch::Contains("pairs 20") &&
                                           Catch::Contains("--init=" + folder.path()));
  const TemporaryFolder another;
  run.trainer.checkpoint_dir = another.File("ckpt");
  run.resume = folder.File("ckpt/last");
  for (const ToyResult& result : TrainToy(run)) {
    CHECK(result.reason == "max_steps");
    CHECK(result.state.step == 8);
    CHECK(result.positions.front() == DataPosition());
    CHECK(result.weights != first.weights);
    // The other run's best is none of this one.
    CHECK(result.state.best_step == 8);
  }
}

TEST_CASE("a new run whose limit the checkpoint has reached is refused by the limit's name") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder, another;
  ToyRun run = FullToyRun(corpus, folder, 2);
  run.trainer.max_steps = 0;
  run.trainer.max_epochs = 1;
  const ToyResult first = TrainToy(run)[0];
  REQUIRE(first.exit_code == ExitCode::kDone);
  run.resume = folder.File("ckpt/last");
  run.trainer.checkpoint_dir = another.File("ckpt");
  const auto check_refused = [&](const std::string& text) {
    for (const ToyResult& result : TrainToy(run)) {
      CHECK(result.exit_code == ExitCode::kUsage);
      CHECK_THAT(result.message, Catch::Contains("--resume=" + run.resume) &&
                                     Catch::Contains(text) && Catch::Contains("raise the limit"));
    }
  };
  check_refused("trainer.max_epochs gives 1 epochs, of which the checkpoint has 1");
  run.trainer.max_epochs = 0;
  run.trainer.max_seconds = 1e-3;
  check_refused("trainer.max_time gives 0.001 s, of which the checkpoint has ");
  run.trainer.max_seconds = 0;
  run.trainer.max_steps = first.state.step;
  const std::string steps = std::to_string(first.state.step);
  check_refused("trainer.max_steps gives " + steps + " updates, of which the checkpoint has " +
                steps);
  CHECK(ListCheckpoints(another.File("ckpt")).empty());
  ++run.trainer.max_steps;
  CHECK(TrainToy(run)[0].state.step == first.state.step + 1);
  // A learning rate at its end is one, too.
  run.trainer.max_steps += 5;
  run.trainer.checkpoint_dir = another.File("ended");
  run.trainer.learning_rate = {
      .kind = LrScheduleOptions::Kind::kLinear, .base = 1e-3, .total_steps = first.state.step};
  CHECK_THAT(TrainToy(run)[0].message, Catch::Contains("set optimizer.total_steps above"));
  run.trainer.learning_rate.total_steps += 10;
  CHECK(TrainToy(run)[0].exit_code == ExitCode::kDone);
}

TEST_CASE("a model of the same shapes that computes otherwise is refused by its key") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 2);
  run.trainer.max_steps = 3;
  REQUIRE(TrainToy(run)[0].exit_code == ExitCode::kDone);
  run.task.model.num_heads = 2;
  run.task.model.layer_norm_epsilon = 1e-3f;
  CHECK(TrainToy(run)[1].exit_code == ExitCode::kStorage);
  CHECK_THAT(TrainToy(run)[0].message,
             Catch::Contains("is of another model (num_heads 4, layer_norm_epsilon 1e-05 there, "
                             "num_heads 2, layer_norm_epsilon 0.001 here)"));
}

// Steps of the checkpoints of a run that are written on request alone, and at its end.
std::vector<int64_t> CheckpointsOnRequest(
    int ranks, const std::function<void(int64_t step, StopFlags& flags)>& request) {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, ranks);
  run.trainer.checkpoint_every = {};
  run.trainer.eval_every = {};
  StopFlags flags;  // one for all ranks: whichever reads it first clears it
  run.stop_flags = &flags;
  run.before_update = [&](int64_t step, ParameterSet&) { request(step, flags); };
  CHECK(TrainToy(run)[0].reason == "max_steps");
  return ListCheckpoints(folder.File("ckpt"));
}

TEST_CASE("a request of any rank writes a checkpoint and the run goes on") {
  CHECK(CheckpointsOnRequest(2, [](int64_t step, StopFlags& flags) {
          if (step == 5) flags.checkpoint = true;
        }) == std::vector<int64_t>{6, kFullToySteps});
}

TEST_CASE("a signal that is heard in two updates is one request, however long they take") {
  // The second rank to hear it does so behind the first one's sums.
  CHECK(CheckpointsOnRequest(1, [](int64_t step, StopFlags& flags) {
          if (step == 5 || step == 6) flags.checkpoint = true;
          if (step == 6) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
        }) == std::vector<int64_t>{6, kFullToySteps});
}

TEST_CASE("a complete run makes no more updates when it is started again") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  const ToyRun run = FullToyRun(corpus, folder, 1);
  const ToyResult first = TrainToy(run)[0];
  const ToyResult again = TrainToy(run)[0];
  CHECK(again.positions.empty());
  CHECK(again.reason == "max_steps");
  CheckSameBits(again, first);
}

TEST_CASE("a stop during the last evaluation ends the run before its test sets") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 2);
  StopFlags flags;
  run.stop_flags = &flags;
  run.trainer.eval_every = {};
  run.after_evaluation = [&](EvaluationResult&) { flags.stop = true; };
  const ToyResult stopped = TrainToy(run)[0];
  CHECK(stopped.exit_code == ExitCode::kStopped);
  CHECK_THAT(stopped.message, Catch::Contains("the training is complete and saved"));
  run.stop_flags = nullptr;
  const ToyResult complete = TrainToy(run)[0];
  CHECK(complete.exit_code == ExitCode::kDone);
  CHECK(complete.losses.empty());
  CHECK(complete.weights == stopped.weights);
}

}  // namespace
}  // namespace dtrain
