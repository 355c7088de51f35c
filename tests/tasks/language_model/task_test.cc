// task_test.cc - training on texts: ranks, micro-batches, stops and recomputation change nothing.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/task.h"

#include <cmath>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/tasks/language_model/metrics.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/tolerance.h"
#include "testing/toy_bert.h"
#include "testing/toy_run.h"

namespace dtrain {
namespace {

using testing::RunRanks;

// Lines "abcdabcd...", each from another letter on and of another length.
std::string ToyText(int lines, uint64_t seed) {
  RandomStream random({.seed = seed});
  std::string text;
  for (int i = 0; i < lines; ++i) {
    const uint32_t first = random.NextBelow(4);
    const uint32_t length = 6 + random.NextBelow(20);
    for (uint32_t n = 0; n < length; ++n) text.push_back(static_cast<char>('a' + (first + n) % 4));
    text.push_back('\n');
  }
  return text;
}

class ToyTexts {
 public:
  ToyTexts() {
    WriteTestFile(File("train.txt"), ToyText(90, 1));
    WriteTestFile(File("dev.txt"), ToyText(21, 2));
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

 private:
  TemporaryFolder folder_;
};

struct Run {
  int ranks = 1;
  LanguageModelTaskOptions task = {};
  TrainerOptions trainer = {};
  Recompute recompute = Recompute::kNone;
  int64_t stop_at = -1;
};

// 8 updates of 16 windows, with a model of 2 layers.
Run MakeRun(const ToyTexts& texts) {
  Run run;
  run.task.train = {texts.File("train.txt")};
  run.task.dev = {texts.File("dev.txt")};
  run.task.unit = TextUnit::kLine;
  run.task.max_length = 20;
  run.task.device = testing::TestDevice();
  run.task.model = {.hidden_size = 32,
                    .num_layers = 2,
                    .num_heads = 4,
                    .ffn_size = 48,
                    .max_positions = 32,
                    .dropout = 0.0f,
                    .attention_dropout = 0.0f,
                    .initializer_range = 0.15f};
  run.task.batch = {.samples_per_batch = 16};
  run.task.eval_batch_tokens = 64;
  run.task.sampling = {.max_tokens = 12, .temperature = 0.0f};
  run.trainer = ToyBertTrainer(/*max_steps=*/8, "loss");
  return run;
}

void AddDropout(Run& run) { run.task.model.dropout = run.task.model.attention_dropout = 0.1f; }

std::vector<ToyResult> Train(const Run& run) {
  return RunRanks(run.ranks, [&](Communicator& comm) {
    auto task = LanguageModelTask::Create(run.task, comm);
    if (!task.ok()) return FailedResult(task.status());
    return TrainToyTask(**task, run.trainer, {.recompute = run.recompute}, run.task.device,
                        run.stop_at, comm);
  });
}

TEST_CASE("training on texts does not depend on the number of ranks or on micro-batches") {
  const ToyTexts texts;
  Run run = MakeRun(texts);
  AddDropout(run);
  const ToyResult one = Train(run)[0];
  REQUIRE(one.message.empty());
  CHECK(one.losses.back() < one.losses.front());
  for (const int ranks : {1, 2, 4}) {
    for (const int64_t micro_batch : {1000, 40}) {
      INFO(ranks << " ranks, micro-batches of " << micro_batch);
      run.ranks = ranks;
      run.task.micro_batch_tokens = micro_batch;
      const std::vector<ToyResult> results = Train(run);
      for (const ToyResult& result : results) CHECK(result.weights == results[0].weights);
      CHECK(results[0].rows == one.rows);  // tokens so far
      REQUIRE(results[0].losses.size() == one.losses.size());
      for (size_t i = 0; i < one.losses.size(); ++i) {
        CHECK(results[0].losses[i] == Approx(one.losses[i]).epsilon(1e-5));
      }
      CHECK(LargestDifference(results[0].weights, one.weights) < 1e-6);
    }
  }
}

TEST_CASE("a model learns the toy's rule, and writes by it") {
  const ToyTexts texts;
  Run run = MakeRun(texts);
  run.trainer.max_steps = 150;
  run.trainer.eval_every = {PeriodUnit::kUpdates, 150};
  const ToyResult result = Train(run)[0];
  REQUIRE(!result.evaluations.empty());
  const EvaluationResult& last = result.evaluations.back();
  // The first letter costs 2 bits and the end some; the others hardly any.
  CHECK(last.Metric("bits_per_byte") < 0.7);
  REQUIRE(last.samples.size() == 1);
  const std::string& begin = last.samples[0].source;
  const std::string& made = last.samples[0].hypothesis;
  REQUIRE(!begin.empty());
  REQUIRE(made.size() >= 3);
  char letter = begin.back();
  for (const char next : made) {
    CHECK(next == (letter == 'd' ? 'a' : static_cast<char>(letter + 1)));
    letter = next;
  }
}

// The metrics of an untrained model, whose weights are the same on any number of ranks.
EvaluationResult Evaluate(const Run& run, int ranks) {
  const auto results = RunRanks(ranks, [&](Communicator& comm) {
    auto task = LanguageModelTask::Create(run.task, comm);
    Context ctx(run.task.device);
    return *(*task)->Evaluate(ctx);
  });
  for (const EvaluationResult& result : results) CHECK(result.metrics == results[0].metrics);
  return results[0];
}

TEST_CASE("the measures of texts are those of one process, to the last bit") {
  const ToyTexts texts;
  const Run run = MakeRun(texts);
  const EvaluationResult one = Evaluate(run, 1);
  const std::vector<std::string> names = LanguageModelMetricNames();
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

TEST_CASE("a stopped and resumed run on texts is one that never stopped, bit for bit") {
  const ToyTexts texts;
  const auto make = [&](const std::string& folder, int ranks) {
    Run run = MakeRun(texts);
    run.ranks = ranks;
    AddDropout(run);
    run.task.micro_batch_tokens = 60;
    run.trainer.eval_every = {PeriodUnit::kUpdates, 3};
    run.trainer.checkpoint_dir = folder;
    return run;
  };
  for (const int ranks : {1, 2}) {
    const std::string name = std::to_string(ranks);
    const ToyResult whole = Train(make(texts.File("whole" + name), ranks))[0];
    REQUIRE(whole.exit_code == ExitCode::kDone);
    Run run = make(texts.File("parts" + name), ranks);
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

TEST_CASE("recomputation gives a language model the same bits") {
  const ToyTexts texts;
  Run run = MakeRun(texts);
  AddDropout(run);
  const ToyResult kept = Train(run)[0];
  run.recompute = Recompute::kFull;
  CHECK(Train(run)[0].weights == kept.weights);
}

TEST_CASE("a share of the windows is held out where there is no dev set") {
  const ToyTexts texts;
  Run run = MakeRun(texts);
  run.task.dev = {};
  run.task.hold_out = 0.25;
  const auto whole = ReadTexts(run.task.train, TextUnit::kLine);
  REQUIRE(whole.ok());
  const auto data = ReadData(run.task);
  REQUIRE(data.ok());
  REQUIRE(data->dev);
  CHECK(data->train.bytes() + data->dev->bytes() == whole->bytes);
  const auto windows = static_cast<double>(data->train.size() + data->dev->size());
  CHECK(static_cast<double>(data->dev->size()) == Approx(0.25 * windows).margin(0.5));
  run.task.hold_out = 0.0;
  CHECK(!ReadData(run.task)->dev);
}

TEST_CASE("options that do not fit the texts are refused by name") {
  const ToyTexts texts;
  const auto message = [](const Run& run) { return Train(run)[0].message; };
  Run run = MakeRun(texts);
  run.task.max_length = 64;
  CHECK_THAT(message(run),
             Catch::Contains("data.max_length (64) exceeds the model's 32 positions"));
  run = MakeRun(texts);
  run.task.dev = {};
  WriteTestFile(texts.File("train.txt"), "one\n");
  CHECK_THAT(message(run), Catch::Contains("train.txt: 1 windows are too few to hold some out"));
  run.task.hold_out = 0.0;
  run.ranks = 2;
  CHECK_THAT(message(run), Catch::Contains("train.txt"));
}

TEST_CASE("a run does not go on with other texts") {
  const ToyTexts texts;
  Run run = MakeRun(texts);
  run.trainer.checkpoint_dir = texts.File("ckpt");
  run.stop_at = 2;
  REQUIRE(Train(run)[0].exit_code == ExitCode::kStopped);
  run.stop_at = -1;
  WriteTestFile(texts.File("train.txt"), ToyText(90, 3));
  CHECK(Train(run)[0].exit_code != ExitCode::kDone);
}

}  // namespace
}  // namespace dtrain
