// loss_scaler_test.cc - the scale halves on overflow, doubles after good updates, and has bounds.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/loss_scaler.h"

#include <catch2/catch.hpp>

namespace dtrain {
namespace {

TEST_CASE("an overflow halves the scale at once") {
  LossScaler scaler({.on = true});
  CHECK(scaler.scale() == 65536.0);
  scaler.Update(/*overflow=*/true);
  CHECK(scaler.scale() == 32768.0);
}

TEST_CASE("the scale doubles after 2000 good updates in a row, not before") {
  LossScaler scaler({.on = true});
  for (int i = 0; i < 1999; ++i) scaler.Update(false);
  CHECK(scaler.scale() == 65536.0);
  scaler.Update(false);
  CHECK(scaler.scale() == 131072.0);
  for (int i = 0; i < 1500; ++i) scaler.Update(false);
  scaler.Update(true);
  for (int i = 0; i < 1999; ++i) scaler.Update(false);
  CHECK(scaler.scale() == 65536.0);  // the count began anew
}

TEST_CASE("the scale stays within its bounds") {
  LossScaler scaler({.on = true, .initial = 4.0, .maximum = 8.0, .growth_interval = 1});
  for (int i = 0; i < 5; ++i) scaler.Update(false);
  CHECK(scaler.scale() == 8.0);
  for (int i = 0; i < 10; ++i) scaler.Update(true);
  CHECK(scaler.scale() == 1.0);
}

TEST_CASE("a restored scaler goes on where it was; one that is off stays at 1") {
  LossScaler before({.on = true, .growth_interval = 10});
  before.Update(true);
  for (int i = 0; i < 9; ++i) before.Update(false);
  LossScaler after({.on = true, .growth_interval = 10});
  after.Restore(before.state());
  CHECK(after.scale() == 32768.0);
  after.Update(false);
  CHECK(after.scale() == 65536.0);
  LossScaler off({});
  off.Restore(before.state());
  off.Update(true);
  CHECK(off.scale() == 1.0);
}

}  // namespace
}  // namespace dtrain
