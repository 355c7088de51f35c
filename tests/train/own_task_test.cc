// own_task_test.cc - what the trainer promises to tasks that others write: metrics, limits, checks.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/log.h"
#include "dtrain/comm/self_communicator.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/train/trainer.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/tiny_task.h"

namespace dtrain {
namespace {

using testing::TinyTask;
using testing::TinyTaskOptions;

using Metrics = std::vector<std::pair<std::string, double>>;

// What a run gave.
struct Run final : TrainObserver {
  Status status;
  TrainState state;
  std::string reason;
  std::vector<std::string> directions;  // of the best checkpoint

  std::string message() const { return std::string(status.message()); }
  void OnEvent(int64_t /*step*/, const std::string& kind, const std::string& text) override {
    if (kind == "best") directions.push_back(text);
  }
};

TrainerOptions Options(int64_t updates) {
  return {.max_steps = updates,
          .learning_rate = {.base = 0.01},
          .eval_every = {PeriodUnit::kUpdates, 1},
          .log_every = 0};
}

Run Train(const TinyTaskOptions& task_options, const TrainerOptions& options, Communicator& comm,
          const std::string& resume = "auto") {
  Run run;
  TinyTask task(task_options);
  Context ctx({}, {.rank = comm.rank()});
  Trainer trainer(task, comm, ctx, options);
  trainer.set_observer(&run);
  run.status = trainer.Resume(resume);
  if (!run.status.ok()) return run;
  const StatusOr<TrainResult> result = trainer.Run();
  run.status = result.status();
  run.state = trainer.state();
  if (result.ok()) run.reason = Name(result->reason);
  return run;
}

Run Train(const TinyTaskOptions& task_options, const TrainerOptions& options,
          const std::string& resume = "auto") {
  SelfCommunicator comm;
  return Train(task_options, options, comm, resume);
}

TEST_CASE("a metric's name says its direction by one of its words") {
  for (const char* name :
       {"loss", "eval_loss", "nll", "char_nll", "ppl", "valid_ppl", "perplexity", "error_rate",
        "word-error-rate", "WER", "test/wer", "rmse", "bits_per_byte", "mean error", "top1.err"}) {
    INFO(name);
    CHECK(SmallerIsBetter(name));
  }
  for (const char* name : {"accuracy", "bleu", "f1", "glossary", "power", "answered", "loss/bleu",
                           "hits", "terms", "", "nllb"}) {
    INFO(name);
    CHECK_FALSE(SmallerIsBetter(name));
  }
}

TEST_CASE("the best error rate is the smallest, and early stopping waits for a smaller one") {
  // Falls, then rises: the best one is the third.
  const double rates[] = {0.45, 0.19, 0.10, 0.12, 0.11, 0.13, 0.09};
  const Run run = Train({.metrics =
                             [&](int n) {
                               return Metrics{{"nll", 1.0}, {"error_rate", rates[n - 1]}};
                             }},
                        [] {
                          TrainerOptions options = Options(7);
                          options.best_metric = "error_rate";
                          options.early_stop = {.metric = "error_rate", .patience = 3};
                          return options;
                        }());
  CHECK(run.reason == "early stop");
  CHECK(run.state.step == 6);
  CHECK(run.state.best_step == 3);
  CHECK(run.state.best_metric == 0.10);
  CHECK(run.state.early_stop_step == 3);
  CHECK(run.directions == std::vector<std::string>{"kept by error_rate, smaller is better"});
}

// A task whose "words" are better the fewer they are.
class FewWords final : public TrainingTask {
 public:
  ParameterSet& parameters() override { return tiny_.parameters(); }
  Status Seek(const DataPosition& position) override { return tiny_.Seek(position); }
  DataPosition position() const override { return tiny_.position(); }
  StatusOr<int> NextUpdate() override { return tiny_.NextUpdate(); }
  LossSums Forward(int i, Context& ctx) override { return tiny_.Forward(i, ctx); }
  void Backward(Context& ctx) override { tiny_.Backward(ctx); }
  Evaluation evaluation() override {
    return {.dev = tiny_.evaluation().dev,
            .smaller_is_better = [](const std::string& metric) { return metric == "words"; }};
  }

 private:
  TinyTask tiny_{{.metrics = [](int n) {
    return Metrics{{"words", n == 2 ? 1.0 : 5.0}, {"wer_gain", n == 3 ? 9.0 : 0.0}};
  }}};
};

TEST_CASE("a task that says its metrics' directions is believed") {
  for (const bool by_words : {true, false}) {
    FewWords task;
    SelfCommunicator comm;
    Context ctx;
    TrainerOptions options = Options(4);
    options.best_metric = by_words ? "words" : "wer_gain";
    options.early_stop = {.metric = "words", .patience = 100};
    Run run;
    Trainer trainer(task, comm, ctx, options);
    trainer.set_observer(&run);
    REQUIRE(trainer.Run().ok());
    CHECK(trainer.state().best_step == (by_words ? 2 : 3));
    CHECK(trainer.state().early_stop_step == 2);
    CHECK(run.directions ==
          std::vector<std::string>{by_words ? "kept by words, smaller is better"
                                            : "kept by wer_gain, larger is better; early stopping "
                                              "looks at words, smaller is better"});
  }
}

TEST_CASE("the first metric that a task gives chooses the best checkpoint where none is named") {
  const TemporaryFolder folder;
  TrainerOptions options = Options(4);
  options.checkpoint_dir = folder.File("ckpt");
  options.early_stop.patience = 100;
  // The second evaluation has the most hits, the third the fewest words.
  const TinyTaskOptions hits{.metrics = [](int n) {
    return Metrics{{"hits", n == 2 ? 7.0 : 1.0}, {"wer", n == 3 ? 0.0 : 1.0}};
  }};
  const Run first = Train(hits, options);
  REQUIRE(first.status.ok());
  CHECK(first.state.best_metric_name == "hits");
  CHECK(first.state.early_stop_metric_name == "hits");
  CHECK(first.state.best_step == 2);
  CHECK(first.state.early_stop_step == 2);
  CHECK(std::filesystem::read_symlink(folder.File("ckpt/best-hits")) == "step-00000002");

  // It stays with what it began with, whatever comes first now.
  options.max_steps = 6;
  const TinyTaskOptions turned{.metrics = [](int) { return Metrics{{"wer", 0.0}, {"hits", 3.0}}; }};
  const Run second = Train(turned, options);
  CHECK(second.state.step == 6);
  CHECK(second.state.best_metric_name == "hits");
  CHECK(second.state.best_step == 2);
  CHECK(second.state.stalled_evaluations == 4);
  CHECK(second.directions.empty());  // told when there was no best yet

  // A name that no evaluation gave is none to stay with.
  TrainerOptions misnamed = Options(2);
  misnamed.checkpoint_dir = folder.File("misnamed");
  misnamed.best_metric = "bleu";
  CHECK(Train(hits, misnamed).state.best_step == -1);
  misnamed.best_metric = "";
  misnamed.max_steps = 4;
  CHECK(Train(hits, misnamed).state.best_metric_name == "hits");

  // Another run than that of the checkpoint begins with its own first.
  TrainerOptions elsewhere = Options(8);
  elsewhere.checkpoint_dir = folder.File("other");
  const Run other = Train(turned, elsewhere, folder.File("ckpt"));
  CHECK(other.state.best_metric_name == "wer");
  CHECK(other.state.best_step == 7);

  // A name in the options is what is meant, and early stopping without one of its own follows.
  options.max_steps = 8;
  options.best_metric = "wer";
  const Run third = Train(turned, options);
  CHECK(third.state.best_metric_name == "wer");
  CHECK(third.state.early_stop_metric_name == "wer");
  CHECK(third.state.best_step == 7);
}

TEST_CASE("ranks with other metrics end with the metric, the rank and both values") {
  const auto messages = [](const std::function<Metrics(int rank)>& metrics) {
    return testing::RunRanks(3, [&](Communicator& comm) {
      const TinyTaskOptions task{.metrics = [&](int) { return metrics(comm.rank()); }};
      const Run run = Train(task, Options(2), comm);
      return run.status.ok() ? std::string() : run.message();
    });
  };
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const std::string& message : messages([](int) {
         return Metrics{{"nll", 1.0 / 3.0}, {"auc", kNan}};
       })) {
    CHECK(message.empty());
  }
  for (const std::string& message : messages([](int rank) {
         return Metrics{{"auc", rank == 1 ? -kNan : kNan}};
       })) {
    CHECK(message.empty());
  }
  for (const std::string& message : messages([](int rank) {
         return Metrics{{"nll", 1.0}, {"local", rank == 2 ? -2.0 : 2.0}};
       })) {
    CHECK_THAT(message, Catch::StartsWith("the task's evaluation gave local -2 on rank 2, but "
                                          "local 2 on rank 0: sum"));
  }
  for (const std::string& message : messages([](int rank) {
         return rank == 1 ? Metrics{{"nll", 1.0}} : Metrics{{"nll", 1.0}, {"hits", kNan}};
       })) {
    CHECK_THAT(message,
               Catch::Contains("gave (no more metrics) on rank 1, but hits nan on rank 0"));
  }
}

TEST_CASE("a run that begins at an earlier checkpoint is what goes on, not the run it has left") {
  SetLogSink([](LogLevel, std::string_view) {});
  const TemporaryFolder folder;
  TrainerOptions options = Options(3);
  options.checkpoint_dir = folder.File("ckpt");
  options.checkpoint_every = {PeriodUnit::kUpdates, 1};
  options.keep_last = 3;
  REQUIRE(Train({}, options).status.ok());
  REQUIRE(ListCheckpoints(options.checkpoint_dir) == std::vector<int64_t>{1, 2, 3});
  options.max_steps = 2;
  REQUIRE(Train({}, options, options.checkpoint_dir + "/" + CheckpointName(1)).status.ok());
  CHECK(ListCheckpoints(options.checkpoint_dir) == std::vector<int64_t>{1, 2});
  CHECK(Train({}, options, "never").status.ok());
  CHECK(ListCheckpoints(options.checkpoint_dir) == std::vector<int64_t>{1, 2});
  SetLogSink(nullptr);
}

TEST_CASE("a run that writes no checkpoints does not speak of one when it is stopped") {
  TinyTask task;
  Context ctx({}, {.rank = 0});
  SelfCommunicator comm;
  StopFlags flags;
  flags.stop = true;
  Trainer trainer(task, comm, ctx, Options(3));
  trainer.set_stop_flags(&flags);
  REQUIRE(trainer.Resume("auto").ok());
  const Status stopped = trainer.Run().status();
  CHECK(stopped.code() == ExitCode::kStopped);
  CHECK_THAT(std::string(stopped.message()),
             Catch::Contains("without checkpoint_dir nothing is saved"));
}

TEST_CASE("a context of another rank or compute type is refused before anything is trained") {
  SelfCommunicator comm;
  TinyTask task;
  Context of_another_rank({}, {.rank = 1});
  CHECK_THROWS_WITH(Trainer(task, comm, of_another_rank, Options(1)),
                    Catch::Contains("1 vs 0") && Catch::Contains("ContextOptions::rank"));
  Context bfloat16({}, {.compute_type = DType::kBFloat16});
  CHECK_THROWS_WITH(
      Trainer(task, comm, bfloat16, Options(1)),
      Catch::Contains("allocated for float32") && Catch::Contains("computes in bfloat16"));
  TinyTask without_memory({.allocate = false});
  Context ctx;
  CHECK_THROWS_WITH(Trainer(without_memory, comm, ctx, Options(1)),
                    Catch::Contains("Allocate() comes first"));
}

// Nothing but the six functions that a trainer needs.
class SixFunctions final : public TrainingTask {
 public:
  ParameterSet& parameters() override { return tiny_.parameters(); }
  Status Seek(const DataPosition& position) override { return tiny_.Seek(position); }
  DataPosition position() const override { return tiny_.position(); }
  StatusOr<int> NextUpdate() override { return tiny_.NextUpdate(); }
  LossSums Forward(int i, Context& ctx) override { return tiny_.Forward(i, ctx); }
  void Backward(Context& ctx) override { tiny_.Backward(ctx); }

 private:
  TinyTask tiny_;
};

TEST_CASE("a task of six functions trains, saves and resumes") {
  const TemporaryFolder folder;
  TrainerOptions options = Options(3);
  options.checkpoint_dir = folder.File("ckpt");
  for (const int64_t steps : {3, 7}) {
    options.max_steps = steps;
    SixFunctions task;
    SelfCommunicator comm;
    Context ctx;
    Trainer trainer(task, comm, ctx, options);
    REQUIRE(trainer.Resume("auto").ok());
    CHECK(trainer.state().step == (steps == 3 ? 0 : 3));
    const StatusOr<TrainResult> result = trainer.Run();
    REQUIRE(result.ok());
    CHECK(result->state.step == steps);
    CHECK(result->last_evaluation->metrics.empty());
    CHECK_FALSE(result->test_evaluation.has_value());
  }
}

TEST_CASE("a position is a number of epochs once an epoch has a known size") {
  TinyTask task;
  CHECK(EpochsOf(task) == 0.0);
  REQUIRE(task.Seek({.epoch = 2, .sample = 1}).ok());
  CHECK(EpochsOf(task) == 2.25);
  SixFunctions unknown;
  REQUIRE(unknown.Seek({.epoch = 2, .sample = 1}).ok());
  CHECK(EpochsOf(unknown) == 2.0);
}

TEST_CASE("a run without any limit is refused") {
  TrainerOptions options = Options(0);
  CHECK(Train({}, options).status.code() == ExitCode::kUsage);
  CHECK_THAT(Train({}, options).message(), Catch::Contains("would never end: set max_steps"));
  options.early_stop.patience = 2;
  CHECK(CheckEnds(options).ok());
  options.eval_every = {};  // nothing that could stall
  CHECK(CheckEnds(options).code() == ExitCode::kUsage);
  options.max_epochs = 1;
  CHECK(CheckEnds(options).ok());
  options = {.max_seconds = 1.0};
  CHECK(CheckEnds(options).ok());
}

TEST_CASE("an update without micro-batches is refused with what to give in its place") {
  CHECK_THROWS_WITH(Train({.micro_batches = 0}, Options(1)),
                    Catch::Contains("NextUpdate() gave 0 micro-batches") &&
                        Catch::Contains("with an empty batch"));
}

TEST_CASE("PowerSGD is refused to a task that does not count its tokens") {
  for (const Run& run : testing::RunRanks(2, [](Communicator& comm) {
         TrainerOptions options = Options(2);
         options.reducer.power_sgd.rank = 1;
         return Train({}, options, comm);
       })) {
    CHECK(run.status.code() == ExitCode::kUsage);
    CHECK_THAT(run.message(), Catch::Contains("BatchInfo::global_tokens in TrainingTask::batch()"));
  }
}

}  // namespace
}  // namespace dtrain
