// checkpointer_test.cc - when a checkpoint is due, and what a run writes and finds again.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/checkpointer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/tiny_task.h"

namespace dtrain {
namespace {

// What a Checkpointer is given by its trainer.
struct Parts : TrainObserver {
  explicit Parts(TrainerOptions trainer_options) : options(std::move(trainer_options)) {}
  void OnEvent(int64_t /*step*/, const std::string& kind, const std::string& text) override {
    events.push_back(kind + ": " + text);
  }

  const TrainerOptions options;
  testing::TinyTask task;
  SelfCommunicator comm;
  Context ctx;
  StepTimeline timeline{comm, {}};
  std::vector<float> scale = {1.0f};
  std::unique_ptr<GradientStrategy> strategy = MakeGradientStrategy(
      {}, {task.parameters(), comm, timeline.spans(), Tensor(scale.data(), {1}, DType::kFloat32)});
  Evaluator evaluator{task, comm, ctx, timeline, options};
  Checkpointer checkpointer{task, comm, timeline, options};
  std::vector<std::string> events = {};
};

TEST_CASE("a checkpoint is due by its period, by its age or if one is wanted") {
  Parts parts({.checkpoint_every = {PeriodUnit::kUpdates, 5}, .checkpoint_seconds = 60.0});
  Checkpointer& checkpointer = parts.checkpointer;
  const auto is_due = [&](const PeriodClock& before, const PeriodClock& now, bool wanted = false) {
    checkpointer.MarkDue(before, now, wanted);
    const bool due = checkpointer.is_due();
    // Without a directory nothing is written, but time starts again.
    CHECK(checkpointer.Save({.seconds = now.seconds}, "", *parts.strategy, parts).ok());
    CHECK_FALSE(checkpointer.is_due());
    return due;
  };
  checkpointer.Start(100.0);
  CHECK_FALSE(is_due({.updates = 3, .seconds = 100.0}, {.updates = 4, .seconds = 101.0}));
  CHECK(is_due({.updates = 4, .seconds = 101.0}, {.updates = 5, .seconds = 102.0}));
  CHECK(is_due({.updates = 5, .seconds = 102.0}, {.updates = 6, .seconds = 162.0}));
  CHECK_FALSE(is_due({.updates = 6, .seconds = 162.0}, {.updates = 7, .seconds = 163.0}));
  CHECK(is_due({.updates = 7, .seconds = 163.0}, {.updates = 8, .seconds = 164.0}, true));
  CHECK(checkpointer.last_step() == -1);
}

TEST_CASE("what one run saves another loads, with its state and under its best metric") {
  const TemporaryFolder folder;
  const TrainerOptions options = {.checkpoint_dir = folder.File("ckpt"), .best_metric = "hits"};
  {
    Parts parts(options);
    parts.task.parameters().weights().data<float>()[0] = 7.0f;
    const TrainState state = {
        .step = 4, .position = {.epoch = 1}, .best_metric_name = "hits", .best_step = 4};
    REQUIRE(parts.checkpointer.Save(state, "hits", *parts.strategy, parts).ok());
    CHECK(parts.checkpointer.last_step() == 4);
    REQUIRE(parts.events.size() == 1);
    CHECK_THAT(parts.events[0], Catch::StartsWith("checkpoint: "));
    CHECK(CheckpointDirectory::Open(options.checkpoint_dir)->Has(4));
  }
  Parts parts(options);
  TrainState state;
  const StatusOr<std::string> path =
      parts.checkpointer.Load("auto", parts.evaluator, *parts.strategy, parts, state);
  REQUIRE(path.ok());
  CHECK_THAT(*path, Catch::EndsWith(CheckpointName(4)));
  CHECK(state.step == 4);
  CHECK(state.best_step == 4);
  CHECK(parts.task.parameters().weights().data<float>()[0] == 7.0f);
  parts.checkpointer.FinishResume(*path, {.step = state.step}, parts);
  CHECK(parts.checkpointer.last_step() == 4);
  CHECK(parts.checkpointer.ResumeHint().empty());
  CHECK(parts.events == std::vector<std::string>{"resume: going on from " + *path});

  // Another run begins with these weights, and chooses its best anew.
  Parts other({.checkpoint_dir = folder.File("other"), .best_metric = "hits"});
  REQUIRE(other.checkpointer.Load(*path, other.evaluator, *other.strategy, other, state).ok());
  CHECK(state.step == 4);
  CHECK(state.best_step == -1);
  CHECK(other.checkpointer.ResumeHint() == " with --resume=auto");
  other.checkpointer.FinishResume(*path, {.step = state.step}, other);
  CHECK(other.checkpointer.last_step() == -1);
}

}  // namespace
}  // namespace dtrain
