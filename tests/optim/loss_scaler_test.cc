// loss_scaler_test.cc - the scale halves on overflow, doubles after good updates, and has bounds.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/loss_scaler.h"

#include "testing/catch.h"

namespace dtrain {
namespace {

// A scale through a number of updates.
struct Scaler {
  explicit Scaler(const LossScalerOptions& scaler_options)
      : options(scaler_options), state(InitialLossScale(scaler_options)) {}
  void Update(bool overflow, int times = 1) {
    for (int i = 0; i < times; ++i) state = UpdateLossScale(options, state, overflow);
  }

  LossScalerOptions options;
  LossScalerState state;
};

TEST_CASE("an overflow halves the scale at once") {
  Scaler scaler({.on = true});
  CHECK(scaler.state.scale == 65536.0);
  scaler.Update(/*overflow=*/true);
  CHECK(scaler.state.scale == 32768.0);
}

TEST_CASE("the scale doubles after 2000 good updates in a row, not before") {
  Scaler scaler({.on = true});
  scaler.Update(false, 1999);
  CHECK(scaler.state.scale == 65536.0);
  scaler.Update(false);
  CHECK(scaler.state.scale == 131072.0);
  scaler.Update(false, 1500);
  scaler.Update(true);
  scaler.Update(false, 1999);
  CHECK(scaler.state.scale == 65536.0);  // the count began anew
}

TEST_CASE("the scale stays within its bounds") {
  Scaler scaler({.on = true, .initial = 4.0, .maximum = 8.0, .growth_interval = 1});
  scaler.Update(false, 5);
  CHECK(scaler.state.scale == 8.0);
  scaler.Update(true, 10);
  CHECK(scaler.state.scale == 1.0);
}

TEST_CASE("a restored scaler goes on where it was; one that is off stays at 1") {
  Scaler before({.on = true, .growth_interval = 10});
  before.Update(true);
  before.Update(false, 9);
  Scaler after({.on = true, .growth_interval = 10});
  after.state = RestoreLossScale(after.options, before.state);
  CHECK(after.state.scale == 32768.0);
  after.Update(false);
  CHECK(after.state.scale == 65536.0);
  Scaler off({});
  off.state = RestoreLossScale(off.options, before.state);
  off.Update(true);
  CHECK(off.state.scale == 1.0);
  // A checkpoint of a run without scaling says 1 or nothing.
  CHECK(RestoreLossScale(after.options, {}).scale == 65536.0);
}

}  // namespace
}  // namespace dtrain
