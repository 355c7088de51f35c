// clock_offset_test.cc - clocks that are set apart are found apart.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/clock_offset.h"

#include "dtrain/base/timeline.h"
#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

double Seconds() { return 1e-9 * static_cast<double>(Timeline::Now()); }

TEST_CASE("every rank learns how far each clock is ahead of the first") {
  for (const int size : {2, 3, 4}) {
    const auto offsets = testing::RunRanks(size, [](Communicator& comm) {
      const double ahead = 100.0 - 37.5 * comm.rank();
      return MeasureClockOffsets(comm, [&] { return Seconds() + ahead; });
    });
    for (const std::vector<double>& seen : offsets) {
      REQUIRE(seen.size() == static_cast<size_t>(size));
      CHECK(seen == offsets[0]);
    }
    CHECK(offsets[0][0] == 0.0);
    for (int rank = 1; rank < size; ++rank) {
      // Messages between threads take microseconds, on a busy machine milliseconds.
      CHECK(offsets[0][static_cast<size_t>(rank)] == Approx(-37.5 * rank).margin(0.05));
    }
  }
}

TEST_CASE("an answer is compared with the middle between question and arrival") {
  const auto offsets = testing::RunRanks(3, [](Communicator& comm) {
    // All ranks look at their clocks at the same points, so that these go alike.
    double ticks = 0;
    return MeasureClockOffsets(comm, [&] { return ++ticks + 100 * comm.rank(); });
  });
  for (const std::vector<double>& seen : offsets) {
    CHECK(seen == std::vector<double>{0.0, 100.0, 200.0});
  }
}

TEST_CASE("one rank is not ahead of itself") {
  SelfCommunicator comm;
  CHECK(MeasureClockOffsets(comm, Seconds) == std::vector<double>{0.0});
}

}  // namespace
}  // namespace dtrain
