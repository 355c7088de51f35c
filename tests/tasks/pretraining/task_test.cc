// task_test.cc - pre-training: ranks, stops, parts and recomputation change nothing.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/pretraining/task.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/document_shards.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/tolerance.h"
#include "testing/toy_bert.h"
#include "testing/toy_run.h"

namespace dtrain {
namespace {

using testing::RunRanks;

constexpr int64_t kVocab = 60;

// Documents of counting: what a hidden token was can be told from those beside it.
struct Texts {
  TemporaryFolder folder;
  std::string train = folder.File("train.shard"), dev = folder.File("dev.shard");

  Texts() {
    testing::WriteDocumentShard(train, testing::RandomSegments(25, 12, 6, 1), kVocab);
    testing::WriteDocumentShard(dev, testing::RandomSegments(9, 8, 6, 2), kVocab);
  }
};

struct Run {
  int ranks = 1;
  PretrainingTaskOptions task = {};
  TrainerOptions trainer = {};
  Recompute recompute = Recompute::kNone;
  int64_t stop_at = -1;  // the update during which a stop is asked for
};

// A run of 9 updates, more than an epoch, with a model of 2 layers.
Run MakeRun(const Texts& texts) {
  Run run;
  run.task = {.train = texts.train,
              .dev = texts.dev,
              .examples = {.max_length = 20, .short_share = 0.3, .seed = 5},
              .model = ToyBertOptions(),
              .batch = {.samples_per_batch = 16},
              .device = testing::TestDevice(),
              .eval_batch_tokens = 64};
  run.trainer = ToyBertTrainer(/*max_steps=*/9, "loss");
  return run;
}

using Result = ToyResult;

std::vector<Result> Train(const Run& run) {
  return RunRanks(run.ranks, [&](Communicator& comm) {
    auto task = PretrainingTask::Create(run.task, comm);
    if (!task.ok()) return FailedResult(task.status());
    return TrainToyTask(**task, run.trainer, {.recompute = run.recompute}, run.task.device,
                        run.stop_at, comm);
  });
}

TEST_CASE("a pre-trained model does not depend on the number of ranks or on micro-batches") {
  const Texts texts;
  for (const bool next_sentence : {true, false}) {
    Run run = MakeRun(texts);
    run.task.examples.next_sentence = next_sentence;
    run.task.model.dropout = run.task.model.attention_dropout = 0.1f;
    const Result one = Train(run)[0];
    INFO(one.message);
    REQUIRE(one.exit_code == ExitCode::kDone);
    REQUIRE(one.losses.size() == 9);
    CHECK(one.epochs.back() > 1.0);
    for (size_t i = 0; i < one.losses.size(); ++i) {
      CHECK((one.losses[i] > one.nlls[i] + 0.1) == next_sentence);
    }
    for (const int ranks : {1, 2, 4}) {
      for (const int64_t micro_batch : {1000, 40}) {
        INFO(ranks << " ranks, micro-batches of " << micro_batch);
        run.ranks = ranks;
        run.task.micro_batch_tokens = micro_batch;
        const std::vector<Result> results = Train(run);
        for (const Result& result : results) CHECK(result.weights == results[0].weights);
        CHECK(results[0].rows == one.rows);
        CHECK(results[0].epochs == one.epochs);
        REQUIRE(results[0].losses.size() == one.losses.size());
        for (size_t i = 0; i < one.losses.size(); ++i) {
          CHECK(results[0].losses[i] == Approx(one.losses[i]).epsilon(1e-5));
          CHECK(results[0].nlls[i] == Approx(one.nlls[i]).epsilon(1e-5));
        }
        CHECK(LargestDifference(results[0].weights, one.weights) < 1e-6);
      }
    }
  }
}

TEST_CASE("recomputation leaves every bit of the training as it is") {
  const Texts texts;
  Run run = MakeRun(texts);
  run.task.model.dropout = run.task.model.attention_dropout = 0.1f;
  const Result none = Train(run)[0];
  REQUIRE(none.exit_code == ExitCode::kDone);
  for (const Recompute recompute : {Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
    INFO("recompute " << static_cast<int>(recompute));
    run.recompute = recompute;
    const Result result = Train(run)[0];
    CHECK(result.losses == none.losses);
    CHECK(result.weights == none.weights);
  }
}

// The metrics of an untrained model, whose weights are the same on any number of ranks.
EvaluationResult Evaluate(const Run& run, int ranks) {
  const auto results = RunRanks(ranks, [&](Communicator& comm) {
    auto task = PretrainingTask::Create(run.task, comm);
    Context ctx(run.task.device);
    return *(*task)->Evaluate(ctx);
  });
  for (const EvaluationResult& result : results) CHECK(result.metrics == results[0].metrics);
  return results[0];
}

TEST_CASE("the metrics of pre-training are those of one process, to the last bit") {
  const Texts texts;
  Run run = MakeRun(texts);
  const EvaluationResult one = Evaluate(run, 1);
  REQUIRE(one.metrics.size() == 6);
  const double mlm = one.Metric("mlm_loss");
  CHECK(mlm == Approx(std::log(double{kVocab})).epsilon(0.5));
  CHECK(one.Metric("ppl") == std::exp(mlm));
  for (const auto& [name, value] : one.metrics) {
    INFO(name);
    CHECK(SmallerIsBetter(name) == !name.ends_with("accuracy"));
  }
  CHECK(one.Metric("loss") == mlm + one.Metric("nsp_loss"));
  CHECK(one.Metric("nsp_loss") == Approx(std::log(2.0)).epsilon(0.6));
  CHECK((one.Metric("nsp_accuracy") > 0.1 && one.Metric("nsp_accuracy") < 0.9));
  CHECK((one.Metric("mlm_accuracy") >= 0.0 && one.Metric("mlm_accuracy") < 0.3));
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    CHECK(Evaluate(run, ranks).metrics == one.metrics);
  }
  // The run's seed decides what is trained on, not what is evaluated.
  run.task.examples.seed = 77;
  CHECK(Evaluate(run, 1).metrics == one.metrics);
  run.task.examples.next_sentence = false;
  CHECK(Evaluate(run, 1).metrics.size() == 4);
  run.task.dev = "";
  CHECK(Evaluate(run, 1).metrics.empty());
}

TEST_CASE("a model learns what stands beside hidden tokens") {
  const Texts texts;
  Run run = MakeRun(texts);
  run.trainer.max_steps = 1500;
  run.trainer.learning_rate.base = 2e-3;
  run.trainer.adam.epsilon = 1e-6f;
  run.trainer.eval_every = {PeriodUnit::kUpdates, 1500};
  const Result result = Train(run)[0];
  INFO(result.message);
  REQUIRE_FALSE(result.evaluations.empty());
  const EvaluationResult& last = result.evaluations.back();
  CHECK(last.Metric("mlm_accuracy") > 0.5);
  CHECK(last.Metric("nsp_accuracy") > 0.7);
  CHECK(last.Metric("mlm_loss") < 2.0);
}

TEST_CASE("stop and resume is never stopping, bit for bit, across epochs too") {
  const Texts texts;
  const auto make = [&](const TemporaryFolder& folder, int ranks) {
    Run run = MakeRun(texts);
    run.ranks = ranks;
    run.task.model.dropout = run.task.model.attention_dropout = 0.1f;
    run.task.micro_batch_tokens = 60;
    run.trainer.eval_every = {PeriodUnit::kUpdates, 3};
    run.trainer.checkpoint_dir = folder.File("ckpt");
    return run;
  };
  for (const int ranks : {1, 2}) {
    const TemporaryFolder whole_folder;
    const Result whole = Train(make(whole_folder, ranks))[0];
    REQUIRE(whole.exit_code == ExitCode::kDone);
    for (const int64_t stop_at : {2, 7}) {
      const TemporaryFolder folder;
      Run run = make(folder, ranks);
      run.stop_at = stop_at;
      CHECK(Train(run)[0].exit_code == ExitCode::kStopped);
      const Result resumed = Train(make(folder, ranks))[0];
      INFO(ranks << " ranks: " << resumed.message);
      CHECK(resumed.exit_code == ExitCode::kDone);
      CHECK(resumed.weights == whole.weights);
      CHECK(resumed.evaluations.back().metrics == whole.evaluations.back().metrics);
      CHECK(resumed.losses.size() < whole.losses.size());
      CHECK(resumed.losses.back() == whole.losses.back());
    }
  }
}

TEST_CASE("a pre-training task counts the examples of its first pass") {
  const Texts texts;
  const Run run = MakeRun(texts);
  SelfCommunicator comm;
  const auto task = PretrainingTask::Create(run.task, comm);
  REQUIRE(task.ok());
  const PretrainingExamples examples((*task)->train_shard(), run.task.examples, 0);
  std::vector<int64_t> counts(21);
  for (const uint16_t length : examples.lengths()) ++counts[length];
  const auto counted = (*task)->length_counts();
  CHECK(std::vector<int64_t>(counted.begin(), counted.end()) == counts);
  CHECK((*task)->examples_per_epoch() == examples.size());
  CHECK_FALSE((*task)->epoch().updates_until({}, std::numeric_limits<int64_t>::max()).has_value());
  const int64_t updates = (examples.size() + 15) / 16;
  CHECK((*task)->updates_per_epoch() == updates);
  std::vector<uint32_t> all(static_cast<size_t>(examples.size()));
  std::iota(all.begin(), all.end(), 0u);
  CHECK((*task)->losses_per_update() ==
        Approx(static_cast<double>(examples.Masked(all)) / static_cast<double>(updates)));
}

TEST_CASE("epochs of pre-training are whole, though their examples differ in number") {
  constexpr int64_t kEpochs = 6;
  const Texts texts;
  Run run = MakeRun(texts);
  run.task.batch = {.samples_per_batch = 4};
  SelfCommunicator comm;
  const auto task = PretrainingTask::Create(run.task, comm);
  REQUIRE(task.ok());
  int64_t updates = 0;
  int64_t masked = 0;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const PretrainingExamples examples((*task)->train_shard(), run.task.examples, epoch);
    std::vector<uint32_t> all(static_cast<size_t>(examples.size()));
    std::iota(all.begin(), all.end(), 0u);
    updates += (examples.size() + 3) / 4;
    masked += examples.Masked(all);
  }
  REQUIRE(updates != kEpochs * (*task)->updates_per_epoch());
  run.trainer.max_steps = 0;
  run.trainer.max_epochs = kEpochs;
  run.trainer.updates_per_epoch = (*task)->updates_per_epoch();
  run.trainer.is_rate_of_epochs = true;
  run.trainer.learning_rate = {.kind = LrScheduleOptions::Kind::kLinear,
                               .base = 1e-3,
                               .warmup_steps = 3,
                               .total_steps = kEpochs * run.trainer.updates_per_epoch};
  const Result result = Train(run)[0];
  INFO(result.message);
  CHECK(static_cast<int64_t>(result.losses.size()) == updates);
  CHECK(result.rows.back() == masked);
  CHECK(result.learning_rates.back() == 0.0);
  CHECK(result.learning_rates[result.learning_rates.size() - 2] > 0.0);
}

TEST_CASE("a run goes on with the data and the masks it began with") {
  const Texts texts;
  const TemporaryFolder folder;
  Run run = MakeRun(texts);
  run.trainer.checkpoint_dir = folder.File("ckpt");
  run.stop_at = 2;
  CHECK(Train(run)[0].exit_code == ExitCode::kStopped);
  run.task.examples.masking.share = 0.2;
  const Result other = Train(run)[0];
  CHECK(other.exit_code != ExitCode::kDone);
  CHECK_THAT(other.message, Catch::Contains("masked_share"));
}

TEST_CASE("a pre-training task refuses options and data that do not fit each other") {
  const Texts texts;
  const auto refused = [&](ExitCode code, const std::string& part, auto change) {
    Run run = MakeRun(texts);
    change(run.task);
    const Result result = Train(run)[0];
    CHECK(result.exit_code == code);
    CHECK_THAT(result.message, Catch::Contains(part));
  };
  using Task = PretrainingTaskOptions;
  refused(ExitCode::kData, "/nowhere/s", [](Task& task) { task.train = "/nowhere/s"; });
  refused(ExitCode::kUsage, "a vocabulary of 60 pieces",
          [](Task& task) { task.model.vocab_size = 12; });
  refused(ExitCode::kUsage, "the model's 32 positions",
          [](Task& task) { task.examples.max_length = 40; });
  refused(ExitCode::kUsage, "data.max_length (4)",
          [](Task& task) { task.examples.max_length = 4; });
  refused(ExitCode::kUsage, "data.masked_share (1)",
          [](Task& task) { task.examples.masking.share = 1.0; });
  refused(ExitCode::kUsage, "data.max_predictions (0)",
          [](Task& task) { task.examples.masking.max_predictions = 0; });
  refused(ExitCode::kUsage, "data.short_share (-1)",
          [](Task& task) { task.examples.short_share = -1.0; });
  refused(ExitCode::kUsage, "type_vocab_size", [](Task& task) { task.model.type_vocab_size = 1; });
  const std::string one = texts.folder.File("one.shard");
  testing::WriteDocumentShard(one, {{5, 5, 5}}, kVocab);
  refused(ExitCode::kData, "data.next_sentence=false", [&](Task& task) { task.train = one; });
  refused(ExitCode::kData, "data.next_sentence=false", [&](Task& task) { task.dev = one; });
}

TEST_CASE("micro-batches too small for an update are refused") {
  const Texts texts;
  CheckTooManyMicroBatches(MakeRun(texts), Train);
}

}  // namespace
}  // namespace dtrain
