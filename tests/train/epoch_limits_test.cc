// epoch_limits_test.cc - a learning rate ends with the last epoch, whatever a run goes on with.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

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

// That the rate falls evenly, and is at its end when the run is. Batches of tokens are not as many
// in each epoch: a few updates more or less than planned.
void CheckFallsToTheEnd(const ToyResult& result) {
  REQUIRE(result.records.size() > 20);
  const double step = result.records[0].learning_rate - result.records[1].learning_rate;
  CHECK(step > 0.0);
  for (size_t i = 1; i + 3 < result.records.size(); ++i) {
    CHECK(result.records[i - 1].learning_rate - result.records[i].learning_rate == Approx(step));
  }
  CHECK(result.records.back().learning_rate < 3 * step);
  CHECK(result.records.back().step == result.state.step);
  CHECK(result.records.back().max_steps >= result.state.step);
  CHECK(result.reason == "max_epochs");
  CHECK(result.state.position == DataPosition{.epoch = 3, .sample = 0});
}

TEST_CASE("a learning rate that falls to the last epoch's end does so with other batches, too") {
  const ToyCorpus corpus(140);
  const TemporaryFolder folder;
  StopFlags flags;
  ToyRun first = FallingRun(corpus, folder.File("ckpt"), 120);
  first.stop_flags = &flags;
  first.before_update = [&flags](int64_t step, ParameterSet&) {
    if (step == 9) flags.stop = true;
  };
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

}  // namespace
}  // namespace dtrain
