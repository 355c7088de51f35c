// step_state_test.cc - the decision about an update: the same on every device, and what it says.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/step_state.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "dtrain/device/copy.h"
#include "testing/catch.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One update of a device's state, read back.
StepState Update(DeviceStep& step, double squares, double broken, Stream& stream,
                 double tokens = 32.0) {
  const double values[] = {squares, broken};
  CopyToDevice(step.squares().raw(), values, sizeof(values), stream);
  step.SetInputs({.learning_rate = 1e-3, .tokens = tokens}, stream);
  step.Decide(stream);
  Buffer pinned(stream.device(), sizeof(StepState), ArenaMemory::kPinned);
  auto* const copy = reinterpret_cast<StepState*>(pinned.data());
  step.CopyTo(copy, stream);
  stream.Synchronize();
  return *copy;
}

TEST_CASE("the device decides what the host's formulas decide, bit for bit") {
  const StepRules rules = {
      .loss_scaler = {.on = true, .initial = 4.0, .maximum = 64.0, .growth_interval = 3},
      .loss_scale_tokens = 16.0,
      .clip_norm = 0.5,
      .average_decay = 0.9f};
  Stream stream(testing::TestDevice());
  DeviceStep step(testing::TestDevice(), rules);
  StepState expected{.loss_scaler = InitialLossScale(rules.loss_scaler), .loss_scale = 0.25f};
  step.Reset(expected.loss_scaler, 0, stream);
  // Good, broken, good until it grows, past the floor of 1, and infinite without a broken element.
  const std::vector<std::pair<double, double>> updates = {
      {3.7, 0}, {9e9, 0}, {1e-9, 2}, {std::nan(""), 1}, {2.0, 0}, {0.3, 0},       {0.7, 0},
      {1.0, 0}, {0.0, 0}, {5.5, 3},  {1.5, 1},          {1.0, 7}, {kInfinity, 0}, {1e4, 0}};
  for (const auto& [squares, broken] : updates) {
    CAPTURE(squares, broken);
    expected.inputs = {.learning_rate = 1e-3, .tokens = 32.0};
    DecideStep(rules, squares, std::sqrt(squares), broken, expected);
    const StepState actual = Update(step, squares, broken, stream);
    CHECK(actual.loss_scaler.scale == expected.loss_scaler.scale);
    CHECK(actual.loss_scaler.good_updates == expected.loss_scaler.good_updates);
    CHECK(actual.loss_scale == expected.loss_scale);
    CHECK(actual.skipped == expected.skipped);
    CHECK(actual.optimizer_steps == expected.optimizer_steps);
    CHECK(actual.adam.learning_rate == expected.adam.learning_rate);
    CHECK(actual.adam.gradient_scale == expected.adam.gradient_scale);
    CHECK(actual.adam.bias_correction1 == expected.adam.bias_correction1);
    CHECK(actual.adam.bias_correction2 == expected.adam.bias_correction2);
    CHECK(actual.adam.skip == expected.adam.skip);
    CHECK(actual.average_decay == expected.average_decay);
  }
  CHECK(expected.optimizer_steps == 8);
}

TEST_CASE("a skipped update changes the scale alone, and the bias correction waits") {
  const StepRules rules = {.loss_scaler = {.on = true}, .average_decay = 0.25f};
  Stream stream(testing::TestDevice());
  DeviceStep step(testing::TestDevice(), rules);
  step.Reset(InitialLossScale(rules.loss_scaler), /*optimizer_steps=*/6, stream);
  const StepState skipped = Update(step, 1.0, 1.0, stream);
  CHECK(skipped.skipped == 1);
  CHECK(skipped.adam.skip != 0.0f);
  CHECK(skipped.average_decay == 1.0f);
  CHECK(skipped.optimizer_steps == 6);
  CHECK(skipped.loss_scaler.scale == 32768.0);
  CHECK(skipped.loss_scale == 32768.0f);
  const StepState done = Update(step, 1.0, 0.0, stream);
  CHECK(done.skipped == 0);
  CHECK(done.optimizer_steps == 7);
  CHECK(done.adam.skip == 0.0f);
  CHECK(done.adam.bias_correction1 == Approx(1.0 - std::pow(double{0.9f}, 7)));
  CHECK(done.adam.bias_correction2 == Approx(1.0 - std::pow(double{0.999f}, 7)));
  CHECK(done.average_decay == 0.25f);
}

TEST_CASE("an update without tokens changes neither weights nor scale nor counts") {
  const StepRules rules = {
      .loss_scaler = {.on = true, .growth_interval = 2}, .clip_norm = 1.0, .average_decay = 0.25f};
  Stream stream(testing::TestDevice());
  DeviceStep step(testing::TestDevice(), rules);
  step.Reset(InitialLossScale(rules.loss_scaler), /*optimizer_steps=*/6, stream);
  CHECK(Update(step, 1.0, 0.0, stream).loss_scaler.good_updates == 1);
  for (const double broken : {0.0, 1.0}) {
    const StepState empty = Update(step, 0.0, broken, stream, /*tokens=*/0.0);
    CHECK(empty.adam.skip != 0.0f);
    CHECK(empty.skipped == 0);
    CHECK(empty.average_decay == 1.0f);
    CHECK(empty.optimizer_steps == 7);
    CHECK(empty.gradient_norm == 0.0);
    CHECK(empty.loss_scaler.scale == 65536.0);
    CHECK(empty.loss_scaler.good_updates == 1);
  }
  CHECK(Update(step, 1.0, 0.0, stream).loss_scaler.scale == 131072.0);
}

TEST_CASE("a long gradient is cut to the norm, a short one divided by tokens and scale alone") {
  const StepRules rules = {
      .loss_scaler = {.on = true, .initial = 1024.0}, .loss_scale_tokens = 16.0, .clip_norm = 2.0};
  Stream stream(testing::TestDevice());
  DeviceStep step(testing::TestDevice(), rules);
  step.Reset(InitialLossScale(rules.loss_scaler), 0, stream);
  const double unit = 32.0 * 1024.0 / 16.0;
  const StepState short_one = Update(step, unit * unit, 0.0, stream);
  CHECK(short_one.gradient_norm == 1.0);
  CHECK(short_one.adam.gradient_scale == static_cast<float>(1.0 / unit));
  const StepState long_one = Update(step, 64.0 * unit * unit, 0.0, stream);
  CHECK(long_one.gradient_norm == 8.0);
  CHECK(long_one.adam.gradient_scale == static_cast<float>(0.25 / unit));
  CHECK(long_one.adam.learning_rate == 1e-3f);
}

TEST_CASE("powers by squaring are powers") {
  for (const double base : {0.9, 0.98, 0.999}) {
    for (const int64_t t : {0, 1, 2, 3, 100, 12345}) {
      CHECK(PowerOf(base, t) == Approx(std::pow(base, t)).epsilon(1e-10));
    }
  }
}

}  // namespace
}  // namespace dtrain
