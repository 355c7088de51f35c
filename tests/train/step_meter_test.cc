// step_meter_test.cc - records are means over updates and ranks, and pauses are not training time.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/step_meter.h"

#include <optional>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

TEST_CASE("a record has the losses of all ranks per token since the last one") {
  const auto records = testing::RunRanks(2, [](Communicator& comm) {
    RunClock clock;
    clock.Start(0.0);
    StepTimeline timeline(comm, {});
    StepMeter meter(/*log_every=*/2, comm, clock, timeline);
    meter.Start();
    std::vector<StepRecord> result;
    for (int64_t step = 1; step <= 4; ++step) {
      const double loss = static_cast<double>(step * (comm.rank() + 1));
      // One rank's losses come back to the host, the other's from the device.
      const IssuedUpdate update = {.step = step,
                                   .sums = {.loss = comm.rank() == 0 ? loss : 0.0, .tokens = 10},
                                   .learning_rate = 0.1 * static_cast<double>(step)};
      const std::optional<StepRecord> record =
          meter.Add(update, {.loss = comm.rank() == 1 ? loss : 0.0, .gradient_norm = 3.0});
      if (record) result.push_back(*record);
    }
    return result;
  });
  for (const std::vector<StepRecord>& of_rank : records) {
    REQUIRE(of_rank.size() == 2);
    CHECK(of_rank[0].step == 2);
    CHECK(of_rank[0].loss == (1.0 + 2.0) * 3.0 / 20.0);
    CHECK(of_rank[1].step == 4);
    CHECK(of_rank[1].loss == (3.0 + 4.0) * 3.0 / 20.0);
    CHECK(of_rank[1].learning_rate == 0.1 * 4.0);
    CHECK(of_rank[1].gradient_norm == 3.0);
  }
}

TEST_CASE("a record has the times of all ranks since the last one") {
  const auto records = testing::RunRanks(3, [](Communicator& comm) {
    RunClock clock;
    clock.Start(0.0);
    StepTimeline timeline(comm, {});
    StepMeter meter(/*log_every=*/1, comm, clock, timeline);
    meter.Start();
    timeline.AddStartup(10.0 + comm.rank());
    const auto first = meter.Add({.step = 1, .sums = {.tokens = 1}}, {});
    timeline.AddStartup(1.0);
    const auto second = meter.Add({.step = 2, .sums = {.tokens = 1}}, {});
    return std::vector<StepRecord>{*first, *second};
  });
  for (const std::vector<StepRecord>& of_rank : records) {
    for (size_t rank = 0; rank < 3; ++rank) {
      REQUIRE(of_rank[0].phases.size() == 3);
      CHECK(of_rank[0].phases[rank][0] == 10.0 + static_cast<double>(rank));
      CHECK(of_rank[1].phases[rank][0] == 1.0);
    }
    CHECK(of_rank[0].updates == 1);
  }
}

TEST_CASE("nothing is recorded where no record is wanted") {
  SelfCommunicator comm;
  const RunClock clock;
  StepTimeline timeline(comm, {});
  StepMeter meter(/*log_every=*/0, comm, clock, timeline);
  CHECK_FALSE(meter.Add({.step = 10, .sums = {.tokens = 1}}, {}).has_value());
}

TEST_CASE("a clock continues from earlier processes and stands still in a pause") {
  RunClock clock;
  clock.Start(100.0);
  const double before = clock.Seconds();
  CHECK(before >= 100.0);
  CHECK(before < 105.0);
  double paused = 0.0;
  const Timer timer;
  {
    const RunClock::Pause pause(clock);
    while (timer.Seconds() < 0.05) {
    }
    paused = pause.Seconds();
  }
  CHECK(paused >= 0.05);
  CHECK(clock.Seconds() - before <= timer.Seconds() - 0.05 + 0.01);
}

}  // namespace
}  // namespace dtrain
