// lr_schedule_test.cc - learning rates against those of transformers and of the paper.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/lr_schedule.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/catch.h"
#include "testing/tests_directory.h"

namespace dtrain {
namespace {

using Kind = LrScheduleOptions::Kind;

nlohmann::json Goldens() {
  std::ifstream file(testing::GoldenPath("scheduler_goldens.json"));
  return nlohmann::json::parse(file);
}

LrScheduleOptions OptionsOf(const nlohmann::json& golden) {
  const std::map<std::string, Kind> kinds = {{"paper", Kind::kTransformer},
                                             {"os2s", Kind::kTransformer},
                                             {"constant_warmup", Kind::kConstant},
                                             {"inverse_sqrt", Kind::kInverseSqrt},
                                             {"linear", Kind::kLinear},
                                             {"linear_cold", Kind::kLinear},
                                             {"cosine", Kind::kCosine},
                                             {"cosine_cold", Kind::kCosine},
                                             {"polynomial_1", Kind::kPolynomial},
                                             {"polynomial_2", Kind::kPolynomial},
                                             {"polynomial_half", Kind::kPolynomial},
                                             {"warmup_stable_decay", Kind::kWarmupStableDecay},
                                             {"bert", Kind::kPolynomialTotal},
                                             {"lamb", Kind::kPolynomialTotal}};
  return {.kind = kinds.at(golden.at("name")),
          .base = golden.at("learning_rate"),
          .warmup_steps = golden.at("num_warmup_steps"),
          .total_steps = golden.value("num_training_steps", int64_t{0}),
          .decay_steps = golden.value("num_decay_steps", int64_t{0}),
          .minimum = golden.value("lr_end", 0.0),
          .power = golden.value("power", 1.0),
          .hidden_size = golden.value("hidden_size", int64_t{0})};
}

TEST_CASE("learning rates are those of transformers and of the paper") {
  const nlohmann::json goldens = Goldens();
  CHECK(goldens.size() == 14);
  for (const nlohmann::json& golden : goldens) {
    const std::string name = golden.at("name");
    const LrScheduleOptions options = OptionsOf(golden);
    // transformers and Google's BERT count the updates done, so that their first one has a rate of
    // 0; ours, as the paper's, has the rate of step 1.
    const int64_t shift = options.kind == Kind::kTransformer ? 0 : 1;
    for (const nlohmann::json& point : golden.at("points")) {
      const int64_t step = point.at(0).get<int64_t>() - shift;
      if (step < 0) continue;
      // Behind the end transformers' cosine rises again and ours stays.
      if (options.kind == Kind::kCosine && step >= options.total_steps) continue;
      INFO(name << " step " << step);
      CHECK(LearningRate(options, step, 0.0) ==
            Approx(point.at(1).get<double>()).epsilon(1e-12).margin(1e-18));
    }
  }
}

TEST_CASE("a schedule without what it is made of is refused") {
  for (const Kind kind : {Kind::kLinear, Kind::kCosine, Kind::kPolynomial, Kind::kPolynomialTotal,
                          Kind::kWarmupStableDecay}) {
    CHECK_THROWS_WITH(CheckSchedule({.kind = kind, .base = 1.0, .decay_steps = 1}),
                      Catch::Contains("total_steps"));
    CHECK_NOTHROW(CheckSchedule({.kind = kind, .base = 1.0, .total_steps = 10, .decay_steps = 1}));
  }
  CHECK_THROWS_WITH(
      CheckSchedule({.kind = Kind::kWarmupStableDecay, .base = 1.0, .total_steps = 10}),
      Catch::Contains("decay_steps"));
  CHECK_THROWS_WITH(CheckSchedule({.kind = Kind::kTransformer, .base = 1.0}),
                    Catch::Contains("hidden_size"));
  for (const Kind kind : {Kind::kTransformer, Kind::kInverseSqrt}) {
    CHECK_THROWS_WITH(CheckSchedule({.kind = kind, .base = 1.0, .hidden_size = 8}),
                      Catch::Contains("warmup_steps"));
    CHECK_NOTHROW(CheckSchedule({.kind = kind, .base = 1.0, .warmup_steps = 1, .hidden_size = 8}));
  }
}

TEST_CASE("a stable rate falls to the minimum in the last updates") {
  const LrScheduleOptions options{.kind = Kind::kWarmupStableDecay,
                                  .base = 1.0,
                                  .warmup_steps = 10,
                                  .total_steps = 100,
                                  .decay_steps = 16,
                                  .minimum = 0.2};
  CHECK(LearningRate(options, 4, 0.0) == Approx(0.5));
  CHECK(LearningRate(options, 9, 0.0) == 1.0);
  CHECK(LearningRate(options, 83, 0.0) == 1.0);
  CHECK(LearningRate(options, 87, 0.0) == Approx(0.2 + 0.8 * 0.5));   // a quarter of the decay
  CHECK(LearningRate(options, 92, 0.0) == Approx(0.2 + 0.8 * 0.25));  // nine sixteenths
  CHECK(LearningRate(options, 99, 0.0) == Approx(0.2));
  CHECK(LearningRate(options, 500, 0.0) == Approx(0.2));
}

TEST_CASE("a schedule shorter than its warm-up rises to its end") {
  for (const Kind kind : {Kind::kLinear, Kind::kCosine, Kind::kPolynomial}) {
    const LrScheduleOptions options{
        .kind = kind, .base = 1.0, .warmup_steps = 20, .total_steps = 10};
    for (const int64_t step : {0, 4, 9}) {
      CHECK(LearningRate(options, step, 0.0) == Approx(static_cast<double>(step + 1) / 20));
    }
  }
}

TEST_CASE("behind its end a schedule shorter than its warm-up is at its least") {
  for (const auto kind : {LrScheduleOptions::Kind::kLinear, LrScheduleOptions::Kind::kCosine,
                          LrScheduleOptions::Kind::kPolynomial}) {
    const LrScheduleOptions options{
        .kind = kind, .base = 1.0, .warmup_steps = 10, .total_steps = 10, .minimum = 0.25};
    CHECK(LearningRate(options, 9, 0.0) == 1.0);
    CHECK(LearningRate(options, 10, 0.0) == Approx(0.25));
    CHECK(LearningRate(options, 30, 0.0) == Approx(0.25));
  }
}

TEST_CASE("no rate comes of a schedule that is not whole") {
  CHECK_THROWS_WITH(
      LearningRate({.kind = Kind::kTransformer, .base = 1.0, .warmup_steps = 10}, 5, 0.0),
      Catch::Contains("hidden_size"));
  CHECK_THROWS_WITH(LearningRate({.kind = Kind::kCosine, .base = 1.0}, 5, 0.0),
                    Catch::Contains("total_steps"));
}

TEST_CASE("the schedule that nobody chose is constant") {
  for (const int64_t step : {0, 9, 99999}) CHECK(LearningRate({.base = 3e-4}, step, 0.0) == 3e-4);
}

TEST_CASE("every schedule rises to its base and falls to its minimum") {
  for (const Kind kind : {Kind::kLinear, Kind::kCosine, Kind::kPolynomial, Kind::kLinearBudget}) {
    const LrScheduleOptions options{.kind = kind,
                                    .base = 2e-3,
                                    .warmup_steps = 10,
                                    .total_steps = 100,
                                    .minimum = 1e-4,
                                    .power = 2.0};
    INFO(static_cast<int>(kind));
    CHECK(LearningRate(options, 0, 0.0) == Approx(2e-4));
    CHECK(LearningRate(options, 9, 0.0) == Approx(2e-3));
    CHECK(LearningRate(options, 99, 1.0) == Approx(1e-4));
    CHECK(LearningRate(options, 5000, 1.5) == Approx(1e-4));
  }
}

TEST_CASE("decay over the whole run drops where the warm-up ends") {
  const LrScheduleOptions options{.kind = Kind::kPolynomialTotal,
                                  .base = 1.0,
                                  .warmup_steps = 4,
                                  .total_steps = 16,
                                  .minimum = 0.25};
  CHECK(LearningRate(options, 2, 0.0) == Approx(0.75));
  CHECK(LearningRate(options, 3, 0.0) == Approx(0.25 + 0.75 * 0.75));
  CHECK(LearningRate(options, 15, 0.0) == Approx(0.25));
  CHECK(LearningRate(options, 99, 0.0) == Approx(0.25));
}

TEST_CASE("the schedule of a time budget knows the time alone after its warm-up") {
  const LrScheduleOptions options{.kind = Kind::kLinearBudget, .base = 1.0, .warmup_steps = 4};
  CHECK(LearningRate(options, 1, 0.0) == Approx(0.5));
  CHECK(LearningRate(options, 10, 0.25) == Approx(0.75));
  CHECK(LearningRate(options, 100000, 0.25) == Approx(0.75));
  CHECK(LearningRate(options, 10, 1.0) == 0.0);
}

}  // namespace
}  // namespace dtrain
