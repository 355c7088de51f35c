// run_plan_test.cc - limits, learning rates and remaining time of a run, planned beforehand.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/run_plan.h"

#include <optional>
#include <string>

#include "testing/catch.h"

namespace dtrain {
namespace {

std::string MessageOf(const Status& status) { return std::string(status.message()); }

// Epochs of `each` updates, one sample each.
UpdatesUntil Counting(int64_t each) {
  return [each](const DataPosition& from, int64_t epochs) -> std::optional<int64_t> {
    return (epochs - from.epoch) * each - from.sample;
  };
}

TEST_CASE("the first limit that is reached ends the run") {
  const TrainerOptions options = {.max_steps = 10, .max_seconds = 60.0, .max_epochs = 2};
  const RunPlan plan(options);
  CHECK(plan.ReachedLimit({.step = 9, .position = {.epoch = 1}, .seconds = 59.0}) == std::nullopt);
  CHECK(plan.ReachedLimit({.step = 10}) == EndReason::kMaxSteps);
  CHECK(plan.ReachedLimit({.step = 9, .seconds = 60.0}) == EndReason::kMaxTime);
  CHECK(plan.ReachedLimit({.position = {.epoch = 2}}) == EndReason::kMaxEpochs);
  const TrainerOptions unlimited;
  CHECK(RunPlan(unlimited).ReachedLimit({.step = 1 << 20, .seconds = 1e9}) == std::nullopt);
}

TEST_CASE("a learning rate that falls to an end meets it where the task counts the last update") {
  TrainerOptions options = {
      .max_epochs = 3,
      .updates_per_epoch = 10,
      .learning_rate = {.kind = LrScheduleOptions::Kind::kLinear, .base = 1.0, .total_steps = 30}};
  RunPlan plan(options);
  CHECK(plan.planned_end() == 30);
  CHECK(plan.LearningRateAt(30, 0.0) == 0.0);
  // The epochs turn out to be longer than the first one was expected to be.
  CHECK(plan.PlanEnd({}, Counting(12)).empty());
  CHECK(plan.planned_end() == 36);
  CHECK(plan.LearningRateAt(30, 0.0) > 0.0);
  CHECK(plan.LearningRateAt(36, 0.0) == 0.0);
}

TEST_CASE("a run that resumes with longer epochs says where it ends now") {
  TrainerOptions options = {.max_epochs = 4, .updates_per_epoch = 20};
  RunPlan plan(options);
  plan.Restore({.epoch_count = {.updates_per_epoch = 10}});
  const RunProgress half = {.step = 20, .position = {.epoch = 2}, .epochs = 2.0};
  CHECK(plan.PlanEnd(half, Counting(20)) ==
        "an epoch has 20 updates now, 10 before: the run ends at about update 60, and with it a "
        "learning rate that falls to an end");
  CHECK(plan.planned_end() == 60);
  TrainState saved;
  plan.Save(saved);
  CHECK(saved.epoch_count.updates_per_epoch == 20);
  CHECK(saved.epoch_count.from_step == 20);
  CHECK(saved.epoch_count.from_epochs == 2.0);

  // A task that does not count them gets the same estimate.
  RunPlan estimated(options);
  estimated.Restore({.epoch_count = {.updates_per_epoch = 10}});
  CHECK_FALSE(estimated.PlanEnd(half, {}).empty());
  CHECK(estimated.planned_end() == 60);
}

TEST_CASE("a rate made of epochs continues from the epochs done, else from the updates done") {
  TrainerOptions options = {
      .max_epochs = 4,
      .updates_per_epoch = 20,
      .is_rate_of_epochs = true,
      .learning_rate = {.kind = LrScheduleOptions::Kind::kLinear, .base = 1.0, .total_steps = 80}};
  RunPlan plan(options);
  plan.Restore({.epoch_count = {.updates_per_epoch = 10}});
  static_cast<void>(
      plan.PlanEnd({.step = 20, .position = {.epoch = 2}, .epochs = 2.0}, Counting(20)));
  // Half of the epochs are left, so half of the rate.
  CHECK(plan.LearningRateAt(20, 0.0) ==
        LearningRate({.kind = LrScheduleOptions::Kind::kLinear, .base = 1.0, .total_steps = 80},
                     /*step=*/40, 0.0));
  CHECK(plan.LearningRateAt(60, 0.0) == 0.0);
}

TEST_CASE("a checkpoint that has reached a limit is refused with the limit and what it has") {
  const auto check = [](const TrainerOptions& options, const RunProgress& progress) {
    return MessageOf(RunPlan(options).CheckLimits("runs/a", progress));
  };
  CHECK(check({.max_steps = 10}, {.step = 9}).empty());
  CHECK_THAT(check({.max_steps = 10}, {.step = 10}),
             Catch::Contains("--resume=runs/a leaves nothing to train: trainer.max_steps gives 10 "
                             "updates, of which the checkpoint has 10"));
  CHECK_THAT(check({.max_epochs = 2}, {.step = 5, .position = {.epoch = 2}}),
             Catch::Contains("max_epochs gives 2 epochs"));
  CHECK_THAT(check({.max_seconds = 60.0}, {.step = 5, .seconds = 61.0}),
             Catch::Contains("max_time gives 60 s, of which the checkpoint has 61.0 s"));
  CHECK_THAT(check({.learning_rate = {.kind = LrScheduleOptions::Kind::kCosine, .total_steps = 5}},
                   {.step = 5, .position = {.sample = 1}}),
             Catch::Contains("falls to its least within 5 updates"));
}

TEST_CASE("the time left is that to the nearest limit") {
  const auto outlook = [](const TrainerOptions& options, StepRecord record) {
    RunPlan(options).AddOutlook(record);
    return record;
  };
  const StepRecord record = {.step = 10, .epoch = 0.5, .step_seconds = 2.0, .seconds = 20.0};
  CHECK(outlook({}, record).eta_seconds == -1.0);
  CHECK(outlook({}, record).max_steps == 0);
  CHECK(outlook({.max_steps = 40}, record).eta_seconds == 60.0);
  CHECK(outlook({.max_steps = 40}, record).max_steps == 40);
  CHECK(outlook({.max_steps = 40, .max_seconds = 50.0}, record).eta_seconds == 30.0);
  CHECK(outlook({.max_epochs = 1}, record).eta_seconds == 20.0);
  CHECK(outlook({.max_steps = 5}, record).eta_seconds == 0.0);
  CHECK(outlook({.max_steps = 5}, record).max_steps == 10);
}

TEST_CASE("a learning rate that follows a time budget needs one") {
  TrainerOptions options = {
      .learning_rate = {.kind = LrScheduleOptions::Kind::kLinearBudget, .base = 1.0}};
  CHECK_THROWS_WITH(RunPlan(options), Catch::Contains("needs max_seconds"));
  options.max_seconds = 100.0;
  const RunPlan plan(options);
  CHECK(plan.LearningRateAt(0, 50.0) < plan.LearningRateAt(0, 10.0));
}

}  // namespace
}  // namespace dtrain
