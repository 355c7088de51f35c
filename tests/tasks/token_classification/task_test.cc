// task_test.cc - training on tags: ranks, micro-batches, stops and recomputation change nothing.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/task.h"

#include <cmath>
#include <string>
#include <vector>

#include "dtrain/tasks/token_classification/predictions.h"
#include "tasks/token_classification/toy_tags.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/tolerance.h"
#include "testing/toy_bert.h"
#include "testing/toy_run.h"

namespace dtrain {
namespace {

using testing::RunRanks;

class ToySentences {
 public:
  ToySentences() {
    WriteTestFile(File("train.conll"), testing::ToyTags(60, 1));
    WriteTestFile(File("dev.conll"), testing::ToyTags(21, 2));
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

 private:
  TemporaryFolder folder_;
};

struct Run {
  int ranks = 1;
  TaggingTaskOptions task = {};
  TrainerOptions trainer = {};
  Recompute recompute = Recompute::kNone;
  int64_t stop_at = -1;
};

// 8 updates of 16 rows, of which long sentences have several, with a model of 2 layers.
Run MakeRun(const ToySentences& sentences) {
  Run run;
  run.task.train = {sentences.File("train.conll")};
  run.task.dev = {sentences.File("dev.conll")};
  run.task.max_length = 12;
  run.task.device = testing::TestDevice();
  run.task.model = {.bert = ToyBertOptions(), .classifier_dropout = 0.0f};
  run.task.batch = {.samples_per_batch = 16};
  run.task.eval_batch_tokens = 64;
  run.trainer = ToyBertTrainer(/*max_steps=*/8, "f1");
  return run;
}

std::vector<ToyResult> Train(const Run& run) {
  return RunRanks(run.ranks, [&](Communicator& comm) {
    auto task = TaggingTask::Create(run.task, testing::ToyTagTokenizer(), comm);
    if (!task.ok()) return FailedResult(task.status());
    return TrainToyTask(**task, run.trainer, {.recompute = run.recompute}, run.task.device,
                        run.stop_at, comm);
  });
}

TEST_CASE("training on tags does not depend on the number of ranks or on micro-batches") {
  const ToySentences sentences;
  Run run = MakeRun(sentences);
  run.task.model.bert.dropout = run.task.model.classifier_dropout = 0.1f;
  const ToyResult one = Train(run)[0];
  REQUIRE(one.message.empty());
  CHECK(one.losses.back() < one.losses.front());
  for (const int ranks : {1, 2, 4}) {
    for (const int64_t micro_batch : {1000, 30}) {
      INFO(ranks << " ranks, micro-batches of " << micro_batch);
      run.ranks = ranks;
      run.task.micro_batch_tokens = micro_batch;
      const std::vector<ToyResult> results = Train(run);
      for (const ToyResult& result : results) CHECK(result.weights == results[0].weights);
      CHECK(results[0].rows == one.rows);  // words so far
      REQUIRE(results[0].losses.size() == one.losses.size());
      for (size_t i = 0; i < one.losses.size(); ++i) {
        CHECK(results[0].losses[i] == Approx(one.losses[i]).epsilon(1e-5));
      }
      CHECK(LargestDifference(results[0].weights, one.weights) < 1e-6);
    }
  }
}

TEST_CASE("a model learns the toy's names") {
  const ToySentences sentences;
  Run run = MakeRun(sentences);
  run.trainer.max_steps = 120;
  run.trainer.eval_every = {PeriodUnit::kUpdates, 120};
  const ToyResult result = Train(run)[0];
  REQUIRE(!result.evaluations.empty());
  CHECK(result.evaluations.back().Metric("f1") > 0.9);
  CHECK(result.evaluations.back().Metric("accuracy") > 0.95);
}

// The metrics of an untrained model, whose weights are the same on any number of ranks.
EvaluationResult Evaluate(const Run& run, int ranks) {
  const auto results = RunRanks(ranks, [&](Communicator& comm) {
    auto task = TaggingTask::Create(run.task, testing::ToyTagTokenizer(), comm);
    Context ctx(run.task.device);
    return *(*task)->Evaluate(ctx);
  });
  for (const EvaluationResult& result : results) CHECK(result.metrics == results[0].metrics);
  return results[0];
}

TEST_CASE("the measures of tags are those of one process, to the last bit") {
  const ToySentences sentences;
  const Run run = MakeRun(sentences);
  const EvaluationResult one = Evaluate(run, 1);
  const std::vector<std::string> names = TaggingMetricNames();
  REQUIRE(one.metrics.size() == names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    CHECK(one.metrics[i].first == names[i]);
    CHECK(std::isfinite(one.metrics[i].second));
  }
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    CHECK(Evaluate(run, ranks).metrics == one.metrics);
  }
}

TEST_CASE("a stopped and resumed run on tags is one that never stopped, bit for bit") {
  const ToySentences sentences;
  const auto make = [&](const std::string& folder, int ranks) {
    Run run = MakeRun(sentences);
    run.ranks = ranks;
    run.task.model.bert.dropout = run.task.model.classifier_dropout = 0.1f;
    run.task.micro_batch_tokens = 40;
    run.trainer.eval_every = {PeriodUnit::kUpdates, 3};
    run.trainer.checkpoint_dir = folder;
    return run;
  };
  for (const int ranks : {1, 2}) {
    const std::string name = std::to_string(ranks);
    const ToyResult whole = Train(make(sentences.File("whole" + name), ranks))[0];
    REQUIRE(whole.exit_code == ExitCode::kDone);
    Run run = make(sentences.File("parts" + name), ranks);
    run.stop_at = 5;
    CHECK(Train(run)[0].exit_code == ExitCode::kStopped);
    run.stop_at = -1;
    const ToyResult rest = Train(run)[0];
    CHECK(rest.message.empty());
    CHECK(rest.weights == whole.weights);
    REQUIRE(!rest.evaluations.empty());
    CHECK(rest.evaluations.back().metrics == whole.evaluations.back().metrics);
  }
}

TEST_CASE("recomputation gives a tagger the same bits") {
  const ToySentences sentences;
  Run run = MakeRun(sentences);
  run.task.model.bert.dropout = run.task.model.classifier_dropout = 0.1f;
  const ToyResult kept = Train(run)[0];
  run.recompute = Recompute::kFull;
  CHECK(Train(run)[0].weights == kept.weights);
}

TEST_CASE("options that do not fit the sentences are refused by name") {
  const ToySentences sentences;
  const auto message = [](const Run& run) { return Train(run)[0].message; };
  Run run = MakeRun(sentences);
  run.task.max_length = 64;
  CHECK_THAT(message(run),
             Catch::Contains("data.max_length (64) exceeds the model's 32 positions"));
  run = MakeRun(sentences);
  run.task.model.bert.vocab_size = 7;
  CHECK_THAT(message(run), Catch::Contains("but the model knows 7"));
  run = MakeRun(sentences);
  run.task.tags = {"O", "B-PER"};
  CHECK_THAT(message(run), Catch::Contains("train.conll: the tag ") &&
                               Catch::Contains("is not one of the model's (O, B-PER)"));
  run = MakeRun(sentences);
  WriteTestFile(sentences.File("dev.conll"), "the O\nold B-ANIMAL\n");
  CHECK_THAT(message(run), Catch::Contains("dev.conll: the tag B-ANIMAL"));
}

TEST_CASE("a checkpoint of other tags is refused") {
  const ToySentences sentences;
  Run run = MakeRun(sentences);
  run.trainer.checkpoint_dir = sentences.File("ckpt");
  run.stop_at = 2;
  REQUIRE(Train(run)[0].exit_code == ExitCode::kStopped);
  run.stop_at = -1;
  run.task.tags = {"O", "B-PER", "B-LOC", "I-LOC"};
  const ToyResult result = Train(run)[0];
  CHECK(result.exit_code == ExitCode::kStorage);
  CHECK_THAT(result.message, Catch::Contains("tags.txt"));
}

}  // namespace
}  // namespace dtrain
