// resume_test.cc - a run that stops and goes on is the run that never stopped, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "dtrain/base/log.h"
#include "dtrain/files/checkpoint_directory.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

constexpr int64_t kSteps = 11;

// Everything that draws, adds up or remembers: dropout of all kinds, accumulation, averaged
// weights, evaluations in between, more than one epoch.
ToyRun FullRun(const ToyCorpus& corpus, const TemporaryFolder& folder, int ranks) {
  ToyRun run = MakeToyRun(corpus);
  run.ranks = ranks;
  run.task.model.dropout = 0.2f;
  run.task.model.attention_dropout = 0.1f;
  run.task.model.activation_dropout = 0.1f;
  run.task.micro_batch_tokens = 25;
  run.trainer.max_steps = kSteps;
  run.trainer.adam = {.weight_decay = 0.01f, .ema_decay = 0.9f};
  run.trainer.eval_every = {PeriodUnit::kUpdates, 4};
  run.trainer.checkpoint_every = {PeriodUnit::kUpdates, 3};
  run.trainer.checkpoint_dir = folder.File("ckpt");
  run.trainer.best_metric = "nll";
  run.resume = "auto";
  return run;
}

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

// Asks for a stop before the update that follows `step`.
void StopAt(ToyRun& run, int64_t step, StopFlags& flags) {
  run.stop_flags = &flags;
  run.before_update = [step, &flags](int64_t now, ParameterSet&) {
    if (now == step) flags.stop = true;
  };
}

TEST_CASE("stop and resume is never stopping, bit for bit") {
  const ToyCorpus corpus(70);
  for (const int ranks : {1, 2}) {
    const TemporaryFolder whole_folder;
    const ToyResult whole = TrainToy(FullRun(corpus, whole_folder, ranks))[0];
    REQUIRE(whole.exit_code == ExitCode::kDone);
    CHECK(whole.state.position.epoch > 0);
    CHECK(whole.weights != whole.average);
    for (const int64_t stop : {1, 3, 7}) {
      INFO(ranks << " ranks, stopped in update " << stop + 1);
      const TemporaryFolder folder;
      ToyRun run = FullRun(corpus, folder, ranks);
      StopFlags flags;
      StopAt(run, stop, flags);
      const std::vector<ToyResult> stopped = TrainToy(run);
      for (const ToyResult& result : stopped) {
        CHECK(result.exit_code == ExitCode::kStopped);
        CHECK(result.state.step == stop + 1);
      }
      CHECK_THAT(stopped[0].message,
                 Catch::Contains("stopped on request at step " + std::to_string(stop + 1)));
      const std::vector<ToyResult> resumed = TrainToy(FullRun(corpus, folder, ranks));
      for (const ToyResult& result : resumed) {
        CHECK(result.positions.size() == static_cast<size_t>(kSteps - stop - 1));
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
    ToyRun run = FullRun(corpus, folder, 2);
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
      ToyRun run = FullRun(corpus, folder, 2);
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
  const ToyResult whole = TrainToy(FullRun(corpus, whole_folder, 2))[0];
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 2);
  run.before_update = [](int64_t step, ParameterSet&) {
    if (step == 8) throw CheckError("this rank dies");
  };
  CHECK_THROWS(TrainToy(run));
  CHECK(ListCheckpoints(folder.File("ckpt")).back() == 8);  // the best one so far
  CheckSameBits(TrainToy(FullRun(corpus, folder, 2))[0], whole);
}

TEST_CASE("resumed on another number of ranks, a run reads the same samples in the same order") {
  const ToyCorpus corpus(70);
  const TemporaryFolder whole_folder;
  ToyRun run = FullRun(corpus, whole_folder, 1);
  const auto without_dropout = [](ToyRun& r) {
    r.task.model.dropout = r.task.model.attention_dropout = r.task.model.activation_dropout = 0.0f;
    r.trainer.adam.epsilon = 1e-3f;  // no whole steps of mere rounding
  };
  without_dropout(run);
  const ToyResult whole = TrainToy(run)[0];
  for (const auto& [first, second] : {std::pair(1, 2), std::pair(2, 1), std::pair(4, 2)}) {
    INFO(first << " ranks, then " << second);
    const TemporaryFolder folder;
    ToyRun before = FullRun(corpus, folder, first);
    without_dropout(before);
    StopFlags flags;
    StopAt(before, 4, flags);
    const ToyResult stopped = TrainToy(before)[0];
    ToyRun after = FullRun(corpus, folder, second);
    without_dropout(after);
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
    const ToyResult one = TrainToy(FullRun(corpus, first, ranks))[0];
    CheckSameBits(TrainToy(FullRun(corpus, second, ranks))[0], one);
    const std::string model = "ckpt/last/model.safetensors";
    CHECK(ReadTestFile(first.File(model)) == ReadTestFile(second.File(model)));
    CHECK(ReadTestFile(first.File(model)).size() > 1000);
  }
}

TEST_CASE("a run does not go on with other data, a new run may start from its weights") {
  const ToyCorpus corpus(70);
  const ToyCorpus other(20, 6, 2, corpus.path() + "/vocab.spm");
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 2);
  run.trainer.max_steps = 3;
  const ToyResult first = TrainToy(run)[0];
  REQUIRE(first.state.position.sample > 20);
  run.trainer.max_steps = 8;
  run.task.data_dir = other.path();
  for (const ToyResult& result : TrainToy(run)) CHECK(result.exit_code == ExitCode::kStorage);
  CHECK_THAT(TrainToy(run)[0].message, Catch::Contains("pairs 70") && Catch::Contains("pairs 20") &&
                                           Catch::Contains("--resume=" + folder.path()));
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
  ToyRun run = FullRun(corpus, folder, 2);
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
  ToyRun run = FullRun(corpus, folder, 2);
  run.trainer.max_steps = 3;
  REQUIRE(TrainToy(run)[0].exit_code == ExitCode::kDone);
  run.task.model.num_heads = 2;
  run.task.model.layer_norm_epsilon = 1e-3f;
  CHECK(TrainToy(run)[1].exit_code == ExitCode::kStorage);
  CHECK_THAT(TrainToy(run)[0].message,
             Catch::Contains("is of another model (num_heads 4, layer_norm_epsilon 1e-05 there, "
                             "num_heads 2, layer_norm_epsilon 0.001 here)"));
}

TEST_CASE("a metric that no evaluation gives is warned of, once") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 2);
  run.trainer.best_metric = "accuracy";
  run.trainer.log_every = 0;  // and no record of a step
  std::mutex mutex;
  std::string warnings;
  const LogSink previous = SetLogSink([&](LogLevel level, std::string_view message) {
    const std::lock_guard lock(mutex);
    if (level >= LogLevel::kWarning) warnings += std::string(message) + "\n";
  });
  const ToyResult result = TrainToy(run)[0];
  SetLogSink(previous);
  CHECK(result.records.empty());
  CHECK(result.state.best_step == -1);
  CHECK(warnings ==
        "evaluations give loss, nll, ppl, bleu_tf, bleu, chrf, but not accuracy: no checkpoint is "
        "kept as the best\n");
}

TEST_CASE("values of another metric do not choose the best checkpoint of a resumed run") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 2);
  run.trainer.early_stop = {.metric = "nll", .patience = 100};
  run.trainer.max_steps = 4;
  const ToyResult first = TrainToy(run)[0];
  CHECK(first.state.best_step == 4);
  CHECK(first.state.best_metric > 1.0);
  run.trainer.max_steps = 8;
  run.trainer.best_metric = "bleu_tf";  // never above 1 here
  run.trainer.early_stop.metric = "bleu_tf";
  run.after_evaluation = [](EvaluationResult& result) {
    for (auto& [name, value] : result.metrics) {
      if (name == "bleu_tf") value = 0.5;
    }
  };
  const ToyResult second = TrainToy(run)[1];
  CHECK(second.state.best_step == 8);
  CHECK(second.state.best_metric == 0.5);
  CHECK(second.state.early_stop_best == 0.5);
  CHECK(second.state.early_stop_step == 8);
  // What is read of the run is the best by the metric that it has now.
  CHECK(BestMetricOf(folder.path()) == "bleu_tf");
  CHECK(std::filesystem::read_symlink(folder.File("ckpt/best-bleu_tf")) == "step-00000008");
  CHECK_FALSE(std::filesystem::is_symlink(folder.File("ckpt/best-nll")));
}

TEST_CASE("values of another dev set do not choose the best checkpoint of a resumed run") {
  const ToyCorpus corpus(70);
  for (const bool differs : {false, true}) {
    INFO("measured otherwise: " << differs);
    const TemporaryFolder folder;
    ToyRun run = FullRun(corpus, folder, 2);
    run.trainer.early_stop = {.metric = "nll", .patience = 100};
    double nll = 1.0;
    run.after_evaluation = [&nll](EvaluationResult& result) {
      for (auto& [name, value] : result.metrics) {
        if (name == "nll") value = nll;
      }
    };
    run.trainer.max_steps = 4;
    CHECK(TrainToy(run)[0].state.best_step == 4);
    nll = 2.0;  // the harder set
    run.trainer.max_steps = 8;
    if (differs) run.task.eval_max_sentences = 2;
    const ToyResult second = TrainToy(run)[1];
    CHECK(second.state.best_step == (differs ? 8 : 4));
    CHECK(second.state.best_metric == (differs ? 2.0 : 1.0));
    CHECK(second.state.early_stop_step == (differs ? 8 : 4));
    CHECK(second.state.stalled_evaluations == (differs ? 0 : 1));
    CHECK(std::filesystem::read_symlink(folder.File("ckpt/best-nll")) ==
          (differs ? "step-00000008" : "step-00000004"));
  }
}

TEST_CASE("a complete run that measures otherwise has a best checkpoint by what it measures now") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 1);
  double nll = 1.0;
  run.after_evaluation = [&nll](EvaluationResult& result) {
    for (auto& [name, value] : result.metrics) {
      if (name == "nll") value = nll;
    }
    nll += 1.0;
  };
  run.trainer.max_steps = 8;
  const int64_t before = TrainToy(run)[0].state.best_step;
  CHECK(before < 8);
  run.task.eval_max_sentences = 2;
  for (int times = 0; times < 2; ++times) {
    const ToyResult again = TrainToy(run)[0];
    CHECK(again.state.step == 8);
    CHECK(again.state.best_step == 8);
    CHECK(std::filesystem::read_symlink(folder.File("ckpt/best-nll")) == "step-00000008");
  }
}

TEST_CASE("a request of any rank writes a checkpoint and the run goes on") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 2);
  run.trainer.checkpoint_every = {};
  run.trainer.eval_every = {};
  StopFlags flags;  // one for both ranks: whichever reads it first clears it
  run.stop_flags = &flags;
  run.before_update = [&flags](int64_t step, ParameterSet&) {
    if (step == 5) flags.checkpoint = true;
  };
  CHECK(TrainToy(run)[0].reason == "max_steps");
  CHECK(ListCheckpoints(folder.File("ckpt")) == std::vector<int64_t>{6, kSteps});
}

TEST_CASE("a complete run makes no more updates when it is started again") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  const ToyRun run = FullRun(corpus, folder, 1);
  const ToyResult first = TrainToy(run)[0];
  const ToyResult again = TrainToy(run)[0];
  CHECK(again.positions.empty());
  CHECK(again.reason == "max_steps");
  CheckSameBits(again, first);
}

TEST_CASE("a run ends after max_epochs, at the end of an epoch") {
  const ToyCorpus corpus(70);
  ToyRun run = MakeToyRun(corpus);
  run.trainer.max_steps = 0;
  run.trainer.max_epochs = 2;
  const ToyResult result = TrainToy(run)[0];
  CHECK(result.reason == "max_epochs");
  CHECK(result.state.position == DataPosition{.epoch = 2, .sample = 0});
  CHECK(result.evaluations.size() == 1);  // one comes at the end
}

TEST_CASE("a run ends early when its metric stalls, also across a stop") {
  const ToyCorpus corpus(70);
  for (const bool stopped : {false, true}) {
    const TemporaryFolder folder;
    ToyRun run = FullRun(corpus, folder, 2);
    run.trainer.max_steps = 100;
    run.trainer.eval_every = {PeriodUnit::kUpdates, 2};
    run.trainer.early_stop = {.metric = "bleu", .patience = 3, .min_steps = 3};
    // Rises once, after update 4, and then no more.
    run.after_evaluation = [](EvaluationResult& result) {
      for (auto& [name, value] : result.metrics) {
        if (name == "bleu") value = 7.0;
      }
    };
    if (stopped) {
      StopFlags flags;
      StopAt(run, 6, flags);
      CHECK(TrainToy(run)[0].exit_code == ExitCode::kStopped);
      run.stop_flags = nullptr;
      run.before_update = nullptr;
    }
    const ToyResult result = TrainToy(run)[0];
    CHECK(result.reason == "early stop");
    CHECK(result.state.step == 10);  // evaluations of 4 (first), 6, 8 and 10 (no better)
    CHECK(result.state.early_stop_step == 4);
  }
}

TEST_CASE("an undefined metric stalls a run, one that no dev set gives does not") {
  const ToyCorpus corpus(70);
  for (const char* metric : {"bleu", "accuracy"}) {
    const TemporaryFolder folder;
    ToyRun run = FullRun(corpus, folder, 2);
    run.trainer.max_steps = 12;
    run.trainer.eval_every = {PeriodUnit::kUpdates, 2};
    run.trainer.early_stop = {.metric = metric, .patience = 3};
    run.after_evaluation = [](EvaluationResult& result) {
      for (auto& [name, value] : result.metrics) {
        if (name == "bleu") value = std::numeric_limits<double>::quiet_NaN();
      }
    };
    INFO(metric);
    CHECK(TrainToy(run)[0].state.step == (std::string(metric) == "bleu" ? 6 : 12));
  }
}

TEST_CASE("gradients that stay NaN end the run with exit code 4 and keep its checkpoint") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 2);
  run.trainer.max_steps = 100;
  run.trainer.checkpoint_every = {PeriodUnit::kUpdates, 3};
  run.before_update = [](int64_t step, ParameterSet& parameters) {
    if (step == 4) {
      *parameters.weights().data<float>() = std::numeric_limits<float>::quiet_NaN();
    }
  };
  for (const ToyResult& result : TrainToy(run)) {
    CHECK(result.exit_code == ExitCode::kDiverged);
    CHECK(result.state.step == 4 + 20);
    CHECK(result.state.optimizer_steps == 4);
    CHECK_THAT(result.message, Catch::Contains("the gradients of 20 updates in a row hold NaN") &&
                                   Catch::Contains("lower optimizer.learning_rate"));
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
    ToyRun run = FullRun(corpus, folder, 2);
    run.trainer.adam.ema_decay = ema_decay;
    run.trainer.max_steps = 7;
    StopFlags flags;
    run.stop_flags = &flags;
    run.before_update = [&flags, stops = is_stopped](int64_t step, ParameterSet& parameters) {
      if (step == 4) {
        *parameters.weights().data<float>() = std::numeric_limits<float>::quiet_NaN();
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
  ToyRun run = FullRun(corpus, folder, 2);
  run.trainer.max_steps = 100;
  StopFlags flags;
  run.stop_flags = &flags;
  run.before_update = [&](int64_t step, ParameterSet& parameters) {
    if (step == 4) {
      *parameters.weights().data<float>() = std::numeric_limits<float>::quiet_NaN();
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

TEST_CASE("an evaluation behind a skipped update does not choose the best checkpoint") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 1);
  // Broken before update 8 and repaired after its evaluation, which looks like the best one.
  float saved = 0.0f;
  run.before_update = [&](int64_t step, ParameterSet& parameters) {
    float& weight = *parameters.weights().data<float>();
    if (step == 7) saved = std::exchange(weight, std::numeric_limits<float>::quiet_NaN());
    if (step == 8) weight = saved;
  };
  int evaluations = 0;
  run.after_evaluation = [&](EvaluationResult& result) {
    ++evaluations;
    for (auto& [name, value] : result.metrics) {
      if (name == "nll") value = evaluations == 2 ? 0.5 : 5.0 - evaluations;
    }
  };
  const ToyResult result = TrainToy(run)[0];
  CHECK(evaluations == 3);
  CHECK(result.state.skipped == 1);
  CHECK(result.state.best_step == kSteps);
  CHECK(std::filesystem::read_symlink(folder.File("ckpt/best-nll")) == "step-00000011");
}

TEST_CASE("a run that diverges just behind its last checkpoint says that it may be broken too") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 2);
  run.trainer.max_steps = 100;
  run.trainer.checkpoint_every = {PeriodUnit::kUpdates, 1};
  run.before_update = [](int64_t step, ParameterSet& parameters) {
    if (step == 5) {
      *parameters.weights().data<float>() = std::numeric_limits<float>::quiet_NaN();
    }
  };
  CHECK_THAT(TrainToy(run)[0].message, Catch::Contains("delete the checkpoint of step 5"));
}

TEST_CASE("a stop during the last evaluation ends the run before its test sets") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullRun(corpus, folder, 2);
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

TEST_CASE("one rank with bad gradients makes all ranks skip that update") {
  const ToyCorpus corpus(70);
  ToyRun run = MakeToyRun(corpus);
  run.ranks = 2;
  // Broken before update 2 and repaired before update 3, on one rank only.
  float saved = 0.0f;
  std::thread::id broken;
  std::mutex mutex;
  run.before_update = [&](int64_t step, ParameterSet& parameters) {
    const std::lock_guard lock(mutex);
    float& weight = *parameters.weights().data<float>();
    if (step == 1 && broken == std::thread::id()) {
      broken = std::this_thread::get_id();
      saved = weight;
      weight = std::numeric_limits<float>::infinity();
    } else if (step == 2 && broken == std::this_thread::get_id()) {
      weight = saved;
    }
  };
  const std::vector<ToyResult> results = TrainToy(run);
  for (const ToyResult& result : results) {
    CHECK(result.reason == "max_steps");
    CHECK(result.state.skipped == 1);
    CHECK(result.weights == results[0].weights);
  }
}

}  // namespace
}  // namespace dtrain
