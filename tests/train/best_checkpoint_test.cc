// best_checkpoint_test.cc - which evaluations choose the best checkpoint or end a run early.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "dtrain/base/log.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

TEST_CASE("a metric that no evaluation gives is warned of, once") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 2);
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

TEST_CASE("an undefined loss is not laid to the labels") {
  const ToyCorpus corpus(70);
  for (const std::string metric : {"nll", "bleu"}) {
    const TemporaryFolder folder;
    ToyRun run = FullToyRun(corpus, folder, 1);
    run.trainer.best_metric = metric;
    run.after_evaluation = [&](EvaluationResult& result) {
      for (auto& [name, value] : result.metrics) {
        if (name == metric) value = std::numeric_limits<double>::quiet_NaN();
      }
    };
    std::string warnings;
    const LogSink previous = SetLogSink([&](LogLevel level, std::string_view message) {
      if (level >= LogLevel::kWarning) warnings += std::string(message) + "\n";
    });
    TrainToy(run);
    SetLogSink(previous);
    CHECK(warnings == metric + " is undefined on the dev set (" +
                          (metric == "nll" ? "the weights or activations are not finite"
                                           : "perhaps all texts, or all of a group, have the "
                                             "same label") +
                          "): it cannot choose the best checkpoint\n");
  }
}

TEST_CASE("values of another metric do not choose the best checkpoint of a resumed run") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 2);
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
  CHECK(std::filesystem::read_symlink(folder.File("ckpt/former-best-nll")) == "step-00000004");
}

TEST_CASE("values of another dev set do not choose the best checkpoint of a resumed run") {
  const ToyCorpus corpus(70);
  for (const bool differs : {false, true}) {
    INFO("measured otherwise: " << differs);
    const TemporaryFolder folder;
    ToyRun run = FullToyRun(corpus, folder, 2);
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
    CHECK(std::filesystem::is_symlink(folder.File("ckpt/former-best-nll")) == differs);
  }
}

TEST_CASE("a best checkpoint that is gone does not stand in the way of the next one") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 1);
  double nll = 1.0;
  run.after_evaluation = [&](EvaluationResult& result) {
    for (auto& [name, value] : result.metrics) {
      if (name == "nll") value = nll;
    }
  };
  run.trainer.max_steps = 4;
  CHECK(TrainToy(run)[0].state.best_step == 4);
  nll = 2.0;
  run.trainer.max_steps = 8;
  CHECK(TrainToy(run)[0].state.best_step == 4);
  std::filesystem::remove_all(folder.File("ckpt/step-00000004"));
  nll = 3.0;
  run.trainer.max_steps = kFullToySteps;
  std::string warnings;
  SetLogSink([&](LogLevel, std::string_view message) { warnings += message; });
  CHECK(TrainToy(run)[0].state.best_step == kFullToySteps);
  SetLogSink(nullptr);
  CHECK_THAT(warnings, Catch::Contains("the best checkpoint, of step 4, is gone"));
  CHECK(std::filesystem::read_symlink(folder.File("ckpt/best-nll")) == "step-00000011");
}

TEST_CASE("a complete run that measures otherwise has a best checkpoint by what it measures now") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 1);
  double nll = 1.0;
  run.after_evaluation = [&nll](EvaluationResult& result) {
    for (auto& [name, value] : result.metrics) {
      if (name == "nll") value = nll;
    }
    nll += 1.0;
  };
  run.trainer.max_steps = 8;
  run.trainer.keep_last = 1;
  const int64_t before = TrainToy(run)[0].state.best_step;
  CHECK(before < 8);
  run.task.eval_max_sentences = 2;
  for (int times = 0; times < 2; ++times) {
    const ToyResult again = TrainToy(run)[0];
    CHECK(again.state.step == 8);
    CHECK(again.state.best_step == 8);
    CHECK(std::filesystem::read_symlink(folder.File("ckpt/best-nll")) == "step-00000008");
    // What was the best is not lost by a look at other sentences.
    const std::string former = CheckpointName(before);
    CHECK(std::filesystem::read_symlink(folder.File("ckpt/former-best-nll")) == former);
    CHECK(std::filesystem::exists(folder.File("ckpt/" + former + "/COMPLETE")));
  }
}

TEST_CASE("a run ends early when its metric stalls, also across a stop") {
  const ToyCorpus corpus(70);
  for (const bool stopped : {false, true}) {
    const TemporaryFolder folder;
    ToyRun run = FullToyRun(corpus, folder, 2);
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
    ToyRun run = FullToyRun(corpus, folder, 2);
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

TEST_CASE("an evaluation behind a skipped update does not choose the best checkpoint") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = FullToyRun(corpus, folder, 1);
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
  CHECK(result.state.best_step == kFullToySteps);
  CHECK(std::filesystem::read_symlink(folder.File("ckpt/best-nll")) == "step-00000011");
}

}  // namespace
}  // namespace dtrain
