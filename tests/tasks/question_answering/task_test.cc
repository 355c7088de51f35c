// task_test.cc - training on questions: ranks, stops and batches change nothing.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/task.h"

#include <cmath>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/tolerance.h"
#include "testing/toy_bert.h"
#include "testing/toy_run.h"
#include "testing/toy_squad.h"

namespace dtrain {
namespace {

using testing::RunRanks;

WordPieceTokenizer Tokenizer() {
  return WordPieceTokenizer::FromVocabulary(testing::ToySquadPieces()).value();
}

class ToyQuestions {
 public:
  explicit ToyQuestions(int impossible = 0) {
    WriteTestFile(train(), testing::ToySquad(60, 1, impossible));
    WriteTestFile(dev(), testing::ToySquad(21, 2, impossible));
  }
  std::string train() const { return folder_.File("train.json"); }
  std::string dev() const { return folder_.File("dev.json"); }
  std::string File(const std::string& name) const { return folder_.File(name); }

 private:
  TemporaryFolder folder_;
};

struct Run {
  int ranks = 1;
  SquadTaskOptions task = {};
  TrainerOptions trainer = {};
  Recompute recompute = Recompute::kNone;
  int64_t stop_at = -1;
};

// 8 updates of 16 windows, of which long texts have several, with a model of 2 layers.
Run MakeRun(const ToyQuestions& questions) {
  Run run;
  run.task.train = {questions.train()};
  run.task.dev = {questions.dev()};
  run.task.windows = {.max_length = 18, .stride = 4, .max_question = 6};
  run.task.device = testing::TestDevice();
  run.task.model = ToyBertOptions();
  run.task.batch = {.samples_per_batch = 16};
  run.task.eval_batch_tokens = 64;
  run.trainer = ToyBertTrainer(/*max_steps=*/8, "f1");
  return run;
}

std::vector<ToyResult> Train(const Run& run) {
  return RunRanks(run.ranks, [&](Communicator& comm) {
    auto task = SquadTask::Create(run.task, Tokenizer(), comm);
    if (!task.ok()) return FailedResult(task.status());
    return TrainToyTask(**task, run.trainer, {.recompute = run.recompute}, run.task.device,
                        run.stop_at, comm);
  });
}

TEST_CASE("training on questions does not depend on the number of ranks or on micro-batches") {
  const ToyQuestions questions;
  Run run = MakeRun(questions);
  run.task.model.dropout = run.task.model.attention_dropout = 0.1f;
  const ToyResult one = Train(run)[0];
  REQUIRE(one.message.empty());
  CHECK(one.losses.back() < one.losses.front());
  CHECK(one.rows.front() == 16);
  for (const int ranks : {1, 2, 4}) {
    for (const int64_t micro_batch : {1000, 30}) {
      INFO(ranks << " ranks, micro-batches of " << micro_batch);
      run.ranks = ranks;
      run.task.micro_batch_tokens = micro_batch;
      const std::vector<ToyResult> results = Train(run);
      for (const ToyResult& result : results) CHECK(result.weights == results[0].weights);
      CHECK(results[0].rows == one.rows);
      REQUIRE(results[0].losses.size() == one.losses.size());
      for (size_t i = 0; i < one.losses.size(); ++i) {
        CHECK(results[0].losses[i] == Approx(one.losses[i]).epsilon(1e-5));
      }
      CHECK(LargestDifference(results[0].weights, one.weights) < 1e-6);
    }
  }
}

// The metrics of an untrained model, whose weights are the same on any number of ranks.
EvaluationResult Evaluate(const Run& run, int ranks) {
  const auto results = RunRanks(ranks, [&](Communicator& comm) {
    auto task = SquadTask::Create(run.task, Tokenizer(), comm);
    Context ctx(run.task.device);
    return *(*task)->Evaluate(ctx);
  });
  for (const EvaluationResult& result : results) CHECK(result.metrics == results[0].metrics);
  return results[0];
}

TEST_CASE("the measures of answers are those of one process, to the last bit") {
  for (const int impossible : {0, 3}) {
    const ToyQuestions questions(impossible);
    const Run run = MakeRun(questions);
    const EvaluationResult one = Evaluate(run, 1);
    const std::vector<std::string> names = SquadMetricNames(impossible > 0);
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
}

TEST_CASE("a stopped and resumed run on questions is one that never stopped, bit for bit") {
  const ToyQuestions questions(4);
  const auto make = [&](const std::string& folder, int ranks) {
    Run run = MakeRun(questions);
    run.ranks = ranks;
    run.task.model.dropout = run.task.model.attention_dropout = 0.1f;
    run.task.micro_batch_tokens = 40;
    run.trainer.eval_every = {PeriodUnit::kUpdates, 3};
    run.trainer.checkpoint_dir = folder;
    return run;
  };
  for (const int ranks : {1, 2}) {
    const std::string name = std::to_string(ranks);
    const ToyResult whole = Train(make(questions.File("whole" + name), ranks))[0];
    REQUIRE(whole.exit_code == ExitCode::kDone);
    Run run = make(questions.File("parts" + name), ranks);
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

TEST_CASE("recomputation gives a question answering model the same bits") {
  const ToyQuestions questions;
  Run run = MakeRun(questions);
  run.task.model.dropout = 0.1f;
  const ToyResult kept = Train(run)[0];
  run.recompute = Recompute::kFull;
  CHECK(Train(run)[0].weights == kept.weights);
}

TEST_CASE("questions that nobody can learn from are told, and options that do not fit refused") {
  const ToyQuestions questions;
  const auto message = [](const Run& run) { return Train(run)[0].message; };
  Run run = MakeRun(questions);
  run.task.train = {questions.File("none.json")};
  CHECK_THAT(message(run), Catch::Contains("none.json"));
  run = MakeRun(questions);
  run.task.windows.max_length = 64;
  CHECK_THAT(message(run),
             Catch::Contains("data.max_length (64) exceeds the model's 32 positions"));
  run = MakeRun(questions);
  run.task.model.vocab_size = 7;
  CHECK_THAT(message(run), Catch::Contains("but the model knows 7"));
  run = MakeRun(questions);
  run.task.model.type_vocab_size = 1;
  CHECK_THAT(message(run), Catch::Contains("type_vocab_size 1"));
  run = MakeRun(questions);
  WriteTestFile(questions.File("lost.json"),
                R"({"data": [{"paragraphs": [{"context": "the old house", "qas": [{"id": "x",)"
                R"("question": "who?", "answers": [{"text": "dog", "answer_start": 4}]}]}]}]})");
  run.task.train = {questions.File("lost.json")};
  CHECK_THAT(message(run), Catch::Contains("lost.json: no answer stands in its text"));
  run = MakeRun(questions);
  run.task.dev = {questions.File("lost.json")};
  const double loss = RunRanks(1, [&](Communicator& comm) {
    auto task = SquadTask::Create(run.task, Tokenizer(), comm);
    Context ctx(run.task.device);
    return (*task)->Evaluate(ctx)->Metric("loss");
  })[0];
  CHECK(std::isnan(loss));
  CHECK_FALSE(std::signbit(loss));
  run = MakeRun(questions);
  run.ranks = 2;
  WriteTestFile(questions.File("one.json"), testing::ToySquad(1, 1));
  run.task.train = {questions.File("one.json")};
  run.task.windows.max_length = 32;
  CHECK_THAT(message(run), Catch::Contains("one.json"));
}

TEST_CASE("micro-batches too small for an update are refused") {
  const ToyQuestions questions;
  CheckTooManyMicroBatches(MakeRun(questions), Train);
}

}  // namespace
}  // namespace dtrain
