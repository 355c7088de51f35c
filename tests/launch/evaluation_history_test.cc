// evaluation_history_test.cc - what the evaluations of a run say of its learning.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/evaluation_history.h"

#include "testing/catch.h"

namespace dtrain {
namespace {

// A run of ten updates between two evaluations, and the warning of the last one.
class ToyHistory {
 public:
  std::string Evaluate(double dev, double train, bool is_best = false, const char* loss = "loss") {
    step_ += 10;
    history_.AddUpdates({.step = step_ - 5, .nll = train + 0.5});
    history_.AddUpdates({.step = step_, .nll = train - 0.5});
    EvaluationResult result;
    result.metrics = {{loss, dev}};
    return history_.AddEvaluation({.step = step_, .result = &result, .is_best = is_best});
  }
  EvaluationHistory& history() { return history_; }

 private:
  EvaluationHistory history_;
  int64_t step_ = 0;
};

TEST_CASE("a run that learns its training data by heart is warned once") {
  ToyHistory run;
  CHECK(run.Evaluate(2.0, 3.0, /*is_best=*/true).empty());
  CHECK(run.Evaluate(2.1, 2.5).empty());
  CHECK(run.Evaluate(2.2, 2.0).empty());
  CHECK_THAT(run.Evaluate(2.3, 1.5),
             Catch::StartsWith("the loss on the dev set has risen in 3 evaluations in a row, from "
                               "2.0000 (update 10) to 2.3000, while that of training fell from "
                               "3.0000 to 1.5000: the model overfits"));
  CHECK(run.Evaluate(2.4, 1.0).empty());
}

TEST_CASE("a dev set that gets worse with the training data is no overfitting") {
  ToyHistory both;
  for (int i = 0; i < 6; ++i) CHECK(both.Evaluate(2.0 + 0.1 * i, 2.0 + 0.1 * i).empty());
  ToyHistory pauses;
  for (int i = 0; i < 6; ++i) {
    const double dev = i % 3 == 2 ? 1.9 : 2.0 + 0.1 * i;
    CHECK(pauses.Evaluate(dev, 2.0 - 0.1 * i).empty());
  }
}

TEST_CASE("the nll counts where there is one, which label smoothing does not raise") {
  ToyHistory run;
  for (int i = 0; i < 3; ++i)
    CHECK(run.Evaluate(2.0 + 0.1 * i, 2.0 - 0.1 * i, false, "nll").empty());
  CHECK_THAT(run.Evaluate(2.5, 1.0, false, "nll"), Catch::StartsWith("the nll on the dev set"));
}

TEST_CASE("a run whose last evaluation is its best would go on improving") {
  ToyHistory run;
  CHECK_FALSE(run.history().EndsWithBest());
  run.Evaluate(2.0, 2.0, /*is_best=*/true);
  CHECK_FALSE(run.history().EndsWithBest());  // one evaluation says nothing
  run.Evaluate(1.9, 1.9, /*is_best=*/true);
  CHECK(run.history().EndsWithBest());
  REQUIRE(run.history().BestAt(20) != nullptr);
  CHECK(run.history().BestAt(20)->Metric("loss") == 1.9);
  run.Evaluate(1.95, 1.8);
  CHECK_FALSE(run.history().EndsWithBest());
  CHECK(run.history().BestAt(30) == nullptr);
}

}  // namespace
}  // namespace dtrain
