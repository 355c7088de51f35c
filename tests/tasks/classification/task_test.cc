// task_test.cc - training a classifier: ranks, stops and batches change nothing.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/task.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/tolerance.h"
#include "testing/toy_classifier.h"

namespace dtrain {
namespace {

using testing::RunRanks;
using Run = ToyClassifierRun;
using Result = ToyClassifierResult;

Run MakeRun(const ToyTexts& texts) { return MakeToyClassifierRun(texts); }
std::vector<Result> Train(const Run& run) { return TrainToyClassifier(run); }

void CheckSameTraining(const Result& actual, const Result& expected) {
  CHECK(actual.message == expected.message);
  CHECK(actual.rows == expected.rows);
  REQUIRE(actual.losses.size() == expected.losses.size());
  for (size_t i = 0; i < actual.losses.size(); ++i) {
    CHECK(actual.losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
  }
  CHECK(LargestDifference(actual.weights, expected.weights) < 1e-6);
}

TEST_CASE("a trained classifier does not depend on the number of ranks or on micro-batches") {
  for (const LabelKind kind : {LabelKind::kClass, LabelKind::kValue, LabelKind::kMultiLabel}) {
    const ToyTexts texts(kind);
    Run run = MakeRun(texts);
    run.task.model.bert.dropout = run.task.model.bert.attention_dropout = 0.1f;
    run.task.model.classifier_dropout = 0.1f;
    const Result one = Train(run)[0];
    CHECK(one.exit_code == ExitCode::kDone);
    CHECK(one.losses.back() != one.losses.front());
    CHECK(one.rows.front() == 16);
    CHECK(one.rows[6] == 90 + 16);  // the last batch of an epoch is what is left
    for (const int ranks : {1, 2, 4}) {
      for (const int64_t micro_batch : {1000, 30}) {
        INFO("labels " << static_cast<int>(kind) << ", " << ranks << " ranks, micro-batches of "
                       << micro_batch);
        run.ranks = ranks;
        run.task.micro_batch_tokens = micro_batch;
        const std::vector<Result> results = Train(run);
        for (const Result& result : results) CHECK(result.weights == results[0].weights);
        CheckSameTraining(results[0], one);
      }
    }
  }
}

// The metrics of an untrained model, whose weights are the same on any number of ranks.
EvaluationResult Evaluate(const Run& run, int ranks) {
  const auto results = RunRanks(ranks, [&](Communicator& comm) {
    auto task = ClassificationTask::Create(run.task, comm);
    Context ctx(run.task.device);
    auto result = (*task)->Evaluate(ctx);
    return *result;
  });
  for (const EvaluationResult& result : results) CHECK(result.metrics == results[0].metrics);
  return results[0];
}

TEST_CASE("the metrics of an evaluation are those of one process, to the last bit") {
  for (const LabelKind kind : {LabelKind::kClass, LabelKind::kValue, LabelKind::kMultiLabel}) {
    const ToyTexts texts(kind);
    texts.Write("other", 17, 3);
    Run run = MakeRun(texts);
    run.task.dev.push_back({"other", texts.path() + "/other.bin"});
    const EvaluationResult one = Evaluate(run, 1);
    CHECK(std::isfinite(one.Metric("loss")));
    CHECK(std::isfinite(one.Metric("other/loss")));
    CHECK(one.Metric("loss") != one.Metric("other/loss"));
    const auto info = ClassificationShard::Open(run.task.dev[0].path)->info();
    for (const std::string& name : MetricNames(info)) {
      CHECK(std::count_if(one.metrics.begin(), one.metrics.end(),
                          [&](const auto& metric) { return metric.first == name; }) == 1);
    }
    CHECK(one.metrics.size() == 2 * MetricNames(info).size());
    for (const int ranks : {2, 3, 4}) {
      INFO(ranks << " ranks");
      CHECK(Evaluate(run, ranks).metrics == one.metrics);
    }
  }
}

TEST_CASE("the tables of several dev sets say whose they are, that of one does not") {
  const ToyTexts texts;
  Run run = MakeRun(texts);
  const EvaluationResult one = Evaluate(run, 1);
  REQUIRE(one.notes.size() == 1);
  CHECK_THAT(one.notes[0], Catch::StartsWith("label\\prediction "));
  run.task.dev.push_back({"other", texts.path() + "/dev.bin"});
  const EvaluationResult both = Evaluate(run, 1);
  REQUIRE(both.notes.size() == 2);
  CHECK(both.notes[0] == "dev:\n" + one.notes[0]);
  CHECK(both.notes[1] == "other:\n" + one.notes[0]);
}

TEST_CASE("stop and resume is never stopping, bit for bit") {
  const ToyTexts texts;
  const auto make = [&](const TemporaryFolder& folder, int ranks) {
    Run run = MakeRun(texts);
    run.ranks = ranks;
    run.task.model.bert.dropout = run.task.model.bert.attention_dropout = 0.1f;
    run.task.model.classifier_dropout = 0.1f;
    run.task.micro_batch_tokens = 40;
    run.trainer.eval_every = {PeriodUnit::kUpdates, 3};
    run.trainer.checkpoint_dir = folder.File("ckpt");
    return run;
  };
  for (const int ranks : {1, 2}) {
    const TemporaryFolder whole_folder, folder;
    const Result whole = Train(make(whole_folder, ranks))[0];
    REQUIRE(whole.exit_code == ExitCode::kDone);
    Run run = make(folder, ranks);
    run.stop_at = 4;
    CHECK(Train(run)[0].exit_code == ExitCode::kStopped);
    const Result resumed = Train(make(folder, ranks))[0];
    INFO(ranks << " ranks: " << resumed.message);
    CHECK(resumed.exit_code == ExitCode::kDone);
    CHECK(resumed.weights == whole.weights);
    CHECK(resumed.evaluations.back().metrics == whole.evaluations.back().metrics);
    CHECK(resumed.losses.size() < whole.losses.size());
  }
}

ClassificationShard Open(const ToyTexts& texts, const std::string& name) {
  auto shard = ClassificationShard::Open(texts.path() + "/" + name + ".bin");
  REQUIRE(shard.ok());
  return *std::move(shard);
}

TEST_CASE("a run that goes on with other batches does all of its epochs") {
  const ToyTexts texts;
  const TemporaryFolder folder;
  int64_t rows = 0;
  const auto run_until = [&](int64_t batch, int64_t epochs, int64_t max_steps, int64_t stop_at) {
    Run run = MakeRun(texts);
    run.ranks = 2;
    run.trainer.checkpoint_dir = folder.File("ckpt");
    run.task.batch = {.samples_per_batch = batch};
    rows = Open(texts, "train").size();
    const int64_t each = (rows + batch - 1) / batch;
    run.trainer.max_steps = max_steps;
    run.trainer.max_epochs = epochs;
    run.trainer.updates_per_epoch = each;
    run.trainer.learning_rate = {.kind = LrScheduleOptions::Kind::kLinear,
                                 .base = 2e-3,
                                 .total_steps = UpdatesOf(max_steps, epochs, each)};
    run.stop_at = stop_at;
    return Train(run)[0];
  };
  const Result stopped = run_until(8, 6, 0, 7);
  REQUIRE(stopped.exit_code == ExitCode::kStopped);
  const Result doubled = run_until(16, 6, 0, -1);
  INFO(doubled.message);
  REQUIRE(doubled.exit_code == ExitCode::kDone);
  CHECK(doubled.rows.back() == 6 * rows);
  // A limit beside the epochs stays one, and a complete run is complete.
  CHECK(run_until(16, 6, 0, -1).losses.empty());
  const auto done = static_cast<int64_t>(stopped.losses.size() + doubled.losses.size());
  CHECK(run_until(16, 8, done + 1, -1).losses.size() == 1);
  // Back to smaller ones, from where the last change was.
  CHECK(run_until(8, 8, 0, -1).rows.back() == 8 * rows);
}

TEST_CASE("a run that goes on with other batches keeps its place in the learning rate") {
  const ToyTexts texts;
  const auto run_until = [&](const TemporaryFolder& folder, int64_t batch, int64_t stop_at) {
    constexpr int64_t kEpochs = 6;
    Run run = MakeRun(texts);
    run.trainer.checkpoint_dir = folder.File("ckpt");
    run.task.batch = {.samples_per_batch = batch};
    const int64_t each = (Open(texts, "train").size() + batch - 1) / batch;
    run.trainer.max_steps = 0;
    run.trainer.max_epochs = kEpochs;
    run.trainer.updates_per_epoch = each;
    run.trainer.is_rate_of_epochs = true;
    run.trainer.learning_rate = {.kind = LrScheduleOptions::Kind::kLinear,
                                 .base = 2e-3,
                                 .warmup_steps = (kEpochs * each + 9) / 10,
                                 .total_steps = kEpochs * each};
    run.stop_at = stop_at;
    return Train(run)[0];
  };
  const auto check = [&](int64_t before, int64_t stop_at, int64_t after) {
    INFO("batches of " << before << ", from update " << stop_at << " on of " << after);
    const TemporaryFolder folder;
    const Result first = run_until(folder, before, stop_at);
    REQUIRE(first.exit_code == ExitCode::kStopped);
    std::vector<double> rates = first.learning_rates;
    // A stop with the batches of now changes nothing.
    const Result second = run_until(folder, after, stop_at + 3);
    REQUIRE(second.exit_code == ExitCode::kStopped);
    const Result third = run_until(folder, after, -1);
    REQUIRE(third.exit_code == ExitCode::kDone);
    CHECK(third.rows.back() == 6 * 90);
    CHECK(second.learning_rates.front() == Approx(rates.back()).epsilon(0.08));
    rates = second.learning_rates;
    rates.insert(rates.end(), third.learning_rates.begin(), third.learning_rates.end());
    CHECK(std::is_sorted(rates.rbegin(), rates.rend()));
    for (size_t i = 2; i < rates.size(); ++i) {
      CHECK(rates[i - 1] - rates[i] == Approx(rates[0] - rates[1]));
    }
    CHECK(rates.back() == 0.0);
  };
  check(16, 8, 4);
  check(4, 31, 16);
}

TEST_CASE("an update sums about as many losses as it has texts") {
  const ToyTexts texts;
  Run run = MakeRun(texts);
  SelfCommunicator comm;
  const auto check = [&](double expected) {
    const auto task = ClassificationTask::Create(run.task, comm);
    CHECK((*task)->losses_per_update() == expected);
  };
  check(16.0);
  run.task.batch = {.tokens_per_batch = 60};
  const ClassificationShard shard = Open(texts, "train");
  const int64_t updates =
      EpochPlan(shard.sample_lengths(), run.task.batch, /*epoch=*/0).num_batches();
  check(90.0 / static_cast<double>(updates));
}

TEST_CASE("where epochs differ in updates each text is learned from in all of them") {
  constexpr int64_t kEpochs = 5;
  const ToyTexts texts;
  bool some_differ = false;
  for (const int64_t tokens : {25, 30, 40, 50}) {
    INFO(tokens << " tokens");
    Run run = MakeRun(texts);
    run.task.batch = {.tokens_per_batch = tokens};
    const int64_t each =
        EpochPlan(Open(texts, "train").sample_lengths(), run.task.batch, /*epoch=*/0).num_batches();
    run.trainer.max_steps = 0;
    run.trainer.max_epochs = kEpochs;
    run.trainer.updates_per_epoch = each;
    run.trainer.is_rate_of_epochs = true;
    run.trainer.learning_rate = {.kind = LrScheduleOptions::Kind::kLinear,
                                 .base = 2e-3,
                                 .warmup_steps = each,
                                 .total_steps = kEpochs * each};
    const Result result = Train(run)[0];
    CHECK(result.exit_code == ExitCode::kDone);
    CHECK(result.rows.back() == kEpochs * 90);
    CHECK(result.epochs.back() == 5.0);
    CHECK(result.learning_rates.back() == 0.0);
    CHECK(result.learning_rates[result.learning_rates.size() - 2] > 0.0);
    some_differ |= static_cast<int64_t>(result.losses.size()) != kEpochs * each;
  }
  CHECK(some_differ);
}

std::string Written(const ClassificationShard& shard,
                    const ClassificationPredictions& predictions) {
  const TemporaryFolder folder;
  REQUIRE(WritePredictions(folder.File("out.tsv"), shard, predictions).ok());
  return ReadTestFile(folder.File("out.tsv"));
}

TEST_CASE("predictions are written with a header, ids, labels and probabilities") {
  const ToyTexts classes(LabelKind::kClass, 9, 2);
  CHECK(Written(Open(classes, "dev"), {.outputs = 3,
                                       .probabilities = {0.25f, 0.5f, 0.25f, 0.125f, 0.375f, 0.5f},
                                       .losses = {0.0f, 0.0f}}) ==
        "id\tlabel\tp_dog\tp_cat\tp_cow\n"
        "t0\tcat\t0.25\t0.5\t0.25\n"
        "2\tcow\t0.125\t0.375\t0.5\n");
  const ToyTexts labels(LabelKind::kMultiLabel, 9, 2);
  CHECK(Written(Open(labels, "dev"), {.outputs = 3,
                                      .probabilities = {0.75f, 0.5f, 0.875f, 0.0f, 0.25f, 0.5f},
                                      .losses = {0.0f, 0.0f}}) ==
        "id\tlabel\tp_dog\tp_cat\tp_cow\n"
        "t0\tdog,cow\t0.75\t0.5\t0.875\n"
        "2\t\t0\t0.25\t0.5\n");
  const ToyTexts values(LabelKind::kValue, 9, 2);
  CHECK(Written(Open(values, "dev"),
                {.outputs = 1, .probabilities = {1.5f, -2.0f}, .losses = {0.0f, 0.0f}}) ==
        "id\tprediction\nt0\t1.5\n2\t-2\n");
  // What would break rows is written as in samples.
  classes.Write("odd", 1, 1, /*labelled=*/true, {"a\tb", "c\nd"});
  CHECK(Written(Open(classes, "odd"),
                {.outputs = 2, .probabilities = {0.75f, 0.25f}, .losses = {0.0f}}) ==
        "id\tlabel\tp_a\\tb\tp_c\\nd\nt0\ta\\tb\t0.75\t0.25\n");
  const ClassificationPredictions some{
      .outputs = 3, .probabilities = std::vector<float>(6), .losses = {0.0f, 0.0f}};
  CHECK(WritePredictions("/nowhere/out.tsv", Open(classes, "dev"), some).code() ==
        ExitCode::kStorage);
}

TEST_CASE("losses alone are better smaller, whatever words a label's name has") {
  const ToyTexts texts;
  ClassificationTaskOptions options = MakeRun(texts).task;
  options.dev.push_back({"other", texts.path() + "/dev.bin"});
  SelfCommunicator comm;
  const auto task = ClassificationTask::Create(options, comm);
  REQUIRE(task.ok());
  for (const char* name : {"loss", "other/loss"}) CHECK((*task)->SmallerIsBetter(name));
  for (const char* name : {"auc_error", "auc_loss", "other/auc_loss", "auc_x/loss", "accuracy"}) {
    INFO(name);
    CHECK_FALSE((*task)->SmallerIsBetter(name));
  }
}

TEST_CASE("a model that predicts one class alone is noticed") {
  const ToyTexts texts(LabelKind::kClass, 9, 3);
  const ClassificationShard dev = Open(texts, "dev");
  ClassificationPredictions predictions{
      .outputs = 3,
      .probabilities = {0.5f, 0.3f, 0.2f, 0.5f, 0.3f, 0.2f, 0.5f, 0.3f, 0.2f},
      .losses = {0.0f, 0.0f, 0.0f}};
  CHECK(OnlyPredictedClass(dev, predictions) == "dog");
  predictions.probabilities[2] = 0.6f;
  CHECK(OnlyPredictedClass(dev, predictions).empty());
}

// Texts of one word with the labels "target" and "insult".
ClassificationShard WriteLabels(const TemporaryFolder& folder,
                                const std::vector<std::vector<float>>& rows,
                                const std::vector<std::string>& groups) {
  const std::string path = folder.File("labels.bin");
  auto writer = ClassificationShardWriter::Create(path, {.vocab_size = 40,
                                                         .vocab_hash = 7,
                                                         .label_kind = LabelKind::kMultiLabel,
                                                         .labels_per_row = 2,
                                                         .label_names = {"target", "insult"},
                                                         .group_names = groups});
  REQUIRE(writer.ok());
  const std::vector<int32_t> ids = {3, 10, 4};
  int64_t row = 0;
  for (const std::vector<float>& labels : rows) {
    REQUIRE(writer->Add({.ids = ids, .first_length = 3, .labels = labels, .row = ++row}).ok());
  }
  REQUIRE(writer->Finish("{}").ok());
  auto shard = ClassificationShard::Open(path);
  REQUIRE(shard.ok());
  return *std::move(shard);
}

TEST_CASE("a model that predicts the same labels of all texts is noticed") {
  const TemporaryFolder folder;
  const ClassificationPredictions none{
      .outputs = 2, .probabilities = {0.1f, 0.2f, 0.3f, 0.5f}, .losses = {0.0f, 0.0f}};
  ClassificationPredictions both = none;
  both.probabilities = {0.9f, 0.8f, 0.7f, 0.6f};
  ClassificationPredictions some = none;
  some.probabilities[3] = 0.6f;
  {
    const ClassificationShard insults = WriteLabels(folder, {{0, 1}, {0, 0}}, {});
    CHECK(OnlyPredictedClass(insults, none) == "none of the labels");
    CHECK(OnlyPredictedClass(insults, both) == "target,insult");
    CHECK(OnlyPredictedClass(insults, some).empty());
  }
  // Labels that all texts have, or none, leave nothing to tell apart, and so do missing ones.
  CHECK(OnlyPredictedClass(WriteLabels(folder, {{0, 1}, {0.25f, 1}}, {}), none).empty());
  CHECK(OnlyPredictedClass(WriteLabels(folder, {{0, 1}, {kNoLabel, kNoLabel}}, {}), none).empty());
  // Of Jigsaw's texts the target decides.
  CHECK(OnlyPredictedClass(WriteLabels(folder, {{0, 1}, {0, 0}}, {"male"}), none).empty());
  CHECK(OnlyPredictedClass(WriteLabels(folder, {{0, 1}, {0.5f, 1}}, {"male"}), none) ==
        "none of the labels");
}

TEST_CASE("rows without labels are predicted and have no metrics") {
  const ToyTexts texts;
  texts.Write("test", 5, 9, /*labelled=*/false);
  Run run = MakeRun(texts);
  run.task.test = texts.path() + "/test.bin";
  const auto metrics = RunRanks(2, [&](Communicator& comm) {
    auto task = ClassificationTask::Create(run.task, comm);
    Context ctx(run.task.device);
    return (*task)->EvaluateTest(ctx)->metrics.size();
  });
  CHECK(metrics == std::vector<size_t>{0, 0});
}

TEST_CASE("balanced weights make classes count alike, however many texts they have") {
  const ToyTexts texts;
  Run run = MakeRun(texts);
  run.task.balance_labels = true;
  SelfCommunicator comm;
  const auto task = ClassificationTask::Create(run.task, comm);
  REQUIRE(task.ok());
  const std::vector<int64_t> rows = CountLabels((*task)->train_shard());
  const std::vector<float>& weights = (*task)->model().options().label_weights;
  REQUIRE(weights.size() == 3);
  double sum = 0.0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double all = static_cast<double>(rows[i]) * double{weights[i]};
    CHECK(all == Approx(static_cast<double>(CountLabelled((*task)->train_shard())) / 3.0));
    sum += all;
  }
  CHECK(sum == Approx(static_cast<double>(CountLabelled((*task)->train_shard()))));

  const ToyTexts values(LabelKind::kValue, 9, 2);
  Run other = MakeRun(values);
  other.task.balance_labels = true;
  CHECK_THAT(Train(other)[0].message, Catch::Contains("trainer.balance_labels weighs classes"));
}

TEST_CASE("a task refuses options and data that do not fit each other") {
  const ToyTexts texts;
  const auto failure = [&](Run run) { return Train(run)[0]; };
  Run run = MakeRun(texts);
  run.task.train = "/nowhere/train.bin";
  CHECK(failure(run).exit_code == ExitCode::kData);

  run = MakeRun(texts);
  run.task.model.bert.vocab_size = 12;
  CHECK(failure(run).exit_code == ExitCode::kUsage);
  CHECK_THAT(failure(run).message, Catch::Contains("a vocabulary of 40 pieces"));

  run = MakeRun(texts);
  run.task.model.label_weights = {1.0f, 2.0f};
  CHECK_THAT(failure(run).message, Catch::Contains("2 weights for 3 labels (dog, cat, cow)"));

  run = MakeRun(texts);
  run.task.model.bert.max_positions = 8;
  CHECK_THAT(failure(run).message, Catch::Contains("the model has 8 positions"));

  texts.Write("other", 5, 4, true, {"dog", "cat"});
  run = MakeRun(texts);
  run.task.dev.push_back({"other", texts.path() + "/other.bin"});
  CHECK(failure(run).exit_code == ExitCode::kData);
  CHECK_THAT(failure(run).message, Catch::Contains("prepare them together"));
}

TEST_CASE("micro-batches too small for an update are refused") {
  const ToyTexts texts(LabelKind::kClass);
  CheckTooManyMicroBatches(MakeRun(texts), Train);
}

}  // namespace
}  // namespace dtrain
