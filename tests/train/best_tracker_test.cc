// best_tracker_test.cc - the best evaluation and early stopping, alone and out of a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/best_tracker.h"

#include <limits>
#include <string>

#include "dtrain/train/early_stop.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("the first value is the best until one is better in the metric's direction") {
  BestTracker larger("bleu");
  CHECK(larger.step() == -1);
  CHECK(larger.Offer(1, -5.0, /*smaller_is_better=*/false));
  CHECK_FALSE(larger.Offer(2, -5.0, false));
  CHECK(larger.Offer(3, 2.0, false));
  CHECK(larger.step() == 3);
  CHECK(larger.value() == 2.0);
  BestTracker smaller("nll");
  CHECK(smaller.Offer(1, 2.0, /*smaller_is_better=*/true));
  CHECK_FALSE(smaller.Offer(2, 3.0, true));
  CHECK(smaller.Offer(3, 1.0, true));
}

TEST_CASE("a run of its own without a metric keeps the checkpoint's, another run does not") {
  TrainState state = {.best_metric_name = "f1", .best_metric = 0.5, .best_step = 7};
  TrainState other = state;
  const BestTracker unnamed("");
  CHECK(unnamed.Adopt(/*is_own=*/true, state).empty());
  BestTracker kept("");
  kept.Restore(state);
  CHECK(kept.metric() == "f1");
  CHECK(kept.step() == 7);
  CHECK(unnamed.Adopt(/*is_own=*/false, other).empty());
  CHECK(other.best_metric_name.empty());
  TrainState unused = {.best_metric_name = "f2"};
  CHECK(unnamed.Adopt(/*is_own=*/true, unused).empty());
  CHECK(unused.best_metric_name.empty());
}

TEST_CASE("the best by another metric is forgotten, and evaluated again") {
  TrainState state = {
      .best_metric_name = "f1", .best_metric = 0.5, .best_step = 7, .evaluated_step = 9};
  BestTracker named("accuracy");
  CHECK(named.Adopt(/*is_own=*/true, state) ==
        "the choice of the best checkpoint looks at accuracy from here on, no longer at f1");
  named.Restore(state);
  CHECK(named.metric() == "accuracy");
  CHECK(named.step() == -1);
  CHECK(state.evaluated_step == -1);
  TrainState same = {.best_metric_name = "accuracy", .best_step = 7};
  CHECK(named.Adopt(/*is_own=*/true, same).empty());
  CHECK(same.best_step == 7);
}

TEST_CASE("early stopping counts evaluations since the last clear improvement") {
  EarlyStop stop({.patience = 2, .min_delta = 0.1, .min_steps = 2}, "nll");
  CHECK(stop.metric() == "nll");
  const auto watch = [&](int64_t step, double value) {
    stop.Watch(step, value, /*smaller_is_better=*/true);
    return stop.is_reached();
  };
  CHECK_FALSE(watch(1, 0.0));  // too early to count
  CHECK_FALSE(watch(2, 2.0));
  CHECK_FALSE(watch(3, 1.95));  // no clear improvement
  CHECK_FALSE(watch(4, 1.5));
  CHECK_FALSE(watch(5, kNan));
  CHECK(watch(6, 1.45));
  TrainState state;
  stop.Save(state);
  CHECK(state.early_stop_best == 1.5);
  CHECK(state.early_stop_step == 4);
  CHECK(state.stalled_evaluations == 2);
  EarlyStop resumed({.patience = 2}, "");
  resumed.Restore(state);
  CHECK(resumed.metric() == "nll");
  CHECK(resumed.is_reached());
  EarlyStop elsewhere({.patience = 2}, "bleu");
  CHECK_THAT(elsewhere.Adopt(/*is_own=*/true, state),
             Catch::Contains("looks at bleu from here on, no longer at nll"));
  CHECK(state.early_stop_step == -1);
}

TEST_CASE("without patience a run never stops early") {
  EarlyStop off({}, "nll");
  for (int64_t step = 1; step < 100; ++step) off.Watch(step, kNan, /*smaller_is_better=*/true);
  CHECK_FALSE(off.is_reached());
}

}  // namespace
}  // namespace dtrain
