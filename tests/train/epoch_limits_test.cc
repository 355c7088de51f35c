// epoch_limits_test.cc - a run and its learning rate end with the last epoch.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

// A run of 3 epochs whose learning rate falls to their end.
ToyRun FallingRun(const ToyCorpus& corpus, const std::string& checkpoint_dir, int64_t tokens) {
  ToyRun run = MakeToyRun(corpus);
  run.task.batch.tokens_per_batch = tokens;
  run.trainer.max_steps = 0;
  run.trainer.max_epochs = 3;
  run.trainer.updates_per_epoch = testing::RunRanks(1, [&](Communicator& comm) {
    return (*TranslationTask::Create(run.task, comm))->updates_per_epoch();
  })[0];
  run.trainer.learning_rate = {.kind = LrScheduleOptions::Kind::kLinear,
                               .base = 2e-3,
                               .warmup_steps = 2,
                               .total_steps = 3 * run.trainer.updates_per_epoch};
  run.trainer.checkpoint_dir = checkpoint_dir;
  return run;
}

// That the rate falls evenly, and is at its end when the run is.
void CheckFallsToTheEnd(const ToyResult& result) {
  REQUIRE(result.records.size() > 20);
  const double step = result.records[0].learning_rate - result.records[1].learning_rate;
  CHECK(step > 0.0);
  for (size_t i = 1; i < result.records.size(); ++i) {
    CHECK(result.records[i - 1].learning_rate - result.records[i].learning_rate == Approx(step));
  }
  CHECK(result.records.back().learning_rate == 0.0);
  CHECK(result.records.back().step == result.state.step);
  CHECK(result.records.back().max_steps == result.state.step);
  CHECK(result.reason == "max_epochs");
  CHECK(result.state.position == DataPosition{.epoch = 3, .sample = 0});
}

std::vector<double> RatesOf(const ToyResult& result) {
  std::vector<double> rates;
  for (const StepRecord& record : result.records) rates.push_back(record.learning_rate);
  return rates;
}

TEST_CASE("where epochs differ in updates all are whole, and the last rate is the schedule's end") {
  const ToyCorpus corpus(300);
  bool some_differ = false;
  for (const int64_t tokens : {45, 60, 75, 100}) {
    INFO(tokens << " tokens");
    const ToyRun run = FallingRun(corpus, "", tokens);
    ToyRun once = run;
    once.trainer.max_epochs = 1;
    const ToyResult whole = TrainToy(run)[0];
    CHECK(whole.reason == "max_epochs");
    CHECK(whole.state.target_tokens == 3 * TrainToy(once)[0].state.target_tokens);
    CHECK(RatesOf(whole).back() == 0.0);
    CHECK(RatesOf(whole)[whole.records.size() - 2] > 0.0);
    CHECK(whole.records.front().max_steps == whole.state.step);
    some_differ |= whole.state.step != 3 * run.trainer.updates_per_epoch;

    const TemporaryFolder folder;
    ToyRun stopped = FallingRun(corpus, folder.File("ckpt"), tokens);
    StopFlags flags;
    StopAt(stopped, 2 * run.trainer.updates_per_epoch, flags);
    std::vector<double> rates = RatesOf(TrainToy(stopped)[0]);
    stopped.stop_flags = nullptr;
    stopped.before_update = nullptr;
    stopped.resume = "auto";
    const std::vector<double> rest = RatesOf(TrainToy(stopped)[0]);
    rates.insert(rates.end(), rest.begin(), rest.end());
    CHECK(rates == RatesOf(whole));
  }
  CHECK(some_differ);
}

TEST_CASE("a learning rate that falls to the last epoch's end does so with other batches, too") {
  const ToyCorpus corpus(140);
  const TemporaryFolder folder;
  StopFlags flags;
  ToyRun first = FallingRun(corpus, folder.File("ckpt"), 120);
  StopAt(first, 9, flags);
  REQUIRE(TrainToy(first)[0].exit_code == ExitCode::kStopped);
  ToyRun second = FallingRun(corpus, folder.File("ckpt"), 60);
  REQUIRE(second.trainer.updates_per_epoch > first.trainer.updates_per_epoch + 4);
  second.resume = "auto";
  CheckFallsToTheEnd(TrainToy(second)[0]);
}

TEST_CASE("a learning rate that falls to the last epoch's end does so on other data, too") {
  const ToyCorpus corpus(70), other(160, 6, /*seed=*/2, corpus.path() + "/vocab.spm");
  const TemporaryFolder folder, another;
  REQUIRE(TrainToy(FallingRun(corpus, folder.File("ckpt"), 120))[0].reason == "max_epochs");
  ToyRun further = FallingRun(other, another.File("ckpt"), 120);
  further.resume = folder.File("ckpt/last");
  CheckFallsToTheEnd(TrainToy(further)[0]);
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

}  // namespace
}  // namespace dtrain
