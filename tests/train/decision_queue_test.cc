// decision_queue_test.cc - what a trainer learns from updates that the device skipped.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/decision_queue.h"

#include <limits>
#include <optional>
#include <string>

#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

// Issues an update with finite gradients, or with infinite ones.
void Issue(DecisionQueue& decisions, Context& ctx, int64_t step, bool is_finite,
           double tokens = 1.0) {
  decisions.step().SetInputs({.learning_rate = 0.1, .tokens = tokens}, ctx.stream());
  double* const squares = decisions.step().squares().data<double>();
  squares[0] = is_finite ? 1.0 : std::numeric_limits<double>::infinity();
  squares[1] = is_finite ? 0.0 : 1.0;  // elements that are not finite
  decisions.step().Decide(ctx.stream());
  decisions.Push({.step = step});
}

// Issues `count` such updates and reads their decisions.
void Run(DecisionQueue& decisions, Context& ctx, int64_t count, bool is_finite) {
  for (int64_t step = 1; step <= count; ++step) {
    Issue(decisions, ctx, step, is_finite);
    while (decisions.Pop(/*all=*/true)) {
    }
  }
}

TEST_CASE("a decision belongs to the update that was pushed, in order") {
  Context ctx;
  DecisionQueue decisions(ctx, {});
  Issue(decisions, ctx, 1, /*is_finite=*/true);
  Issue(decisions, ctx, 2, /*is_finite=*/false);
  const std::optional<DecidedUpdate> first = decisions.Pop(/*all=*/true);
  REQUIRE(first);
  CHECK(first->update.step == 1);
  CHECK(first->decided.skipped == 0);
  const std::optional<DecidedUpdate> second = decisions.Pop(/*all=*/true);
  REQUIRE(second);
  CHECK(second->update.step == 2);
  CHECK(second->decided.skipped == 1);
  CHECK_FALSE(decisions.Pop(/*all=*/true));
  CHECK(decisions.optimizer_steps() == 1);
  CHECK(decisions.skipped() == 1);
  CHECK(decisions.skipped_in_a_row() == 1);
  Run(decisions, ctx, 1, /*is_finite=*/true);
  CHECK(decisions.skipped() == 1);
  CHECK(decisions.skipped_in_a_row() == 0);
}

TEST_CASE("an update without tokens counts neither as skipped nor as good") {
  Context ctx;
  DecisionQueue decisions(ctx, {});
  Run(decisions, ctx, 1, /*is_finite=*/false);
  Issue(decisions, ctx, 2, /*is_finite=*/true, /*tokens=*/0.0);
  REQUIRE(decisions.Pop(/*all=*/true));
  CHECK(decisions.skipped_in_a_row() == 1);
  CHECK(decisions.optimizer_steps() == 0);
}

TEST_CASE("twenty skipped updates in a row end a run, and a checkpoint among them is suspect") {
  Context ctx;
  DecisionQueue decisions(ctx, {});
  Run(decisions, ctx, 19, /*is_finite=*/false);
  CHECK(decisions.CheckDiverged(19, 0.1, /*last_checkpoint=*/-1).ok());
  Run(decisions, ctx, 1, /*is_finite=*/false);
  const Status plain = decisions.CheckDiverged(30, 0.1, /*last_checkpoint=*/9);
  CHECK(plain.code() == ExitCode::kDiverged);
  CHECK_THAT(std::string(plain.message()),
             Catch::Contains("20 updates in a row") && !Catch::Contains("delete the checkpoint"));
  CHECK_THAT(std::string(decisions.CheckDiverged(30, 0.1, /*last_checkpoint=*/10).message()),
             Catch::Contains("delete the checkpoint of step 10"));
  CHECK_THAT(std::string(decisions.CheckDiverged(20, 0.1, /*last_checkpoint=*/-1).message()),
             !Catch::Contains("delete the checkpoint"));
}

TEST_CASE("skipped updates make weights doubtful unless the scale or the data may be the reason") {
  Context ctx;
  {
    DecisionQueue decisions(ctx, {});
    Run(decisions, ctx, 1, /*is_finite=*/true);
    Run(decisions, ctx, 1, /*is_finite=*/false);
    CHECK_FALSE(decisions.HasRecentOverflows());  // perhaps an odd batch
    Run(decisions, ctx, 1, /*is_finite=*/false);
    CHECK(decisions.HasRecentOverflows());
  }
  {
    DecisionQueue scaled(ctx, {.loss_scaler = {.on = true}});
    Run(scaled, ctx, 1, /*is_finite=*/true);
    Run(scaled, ctx, 2, /*is_finite=*/false);
    CHECK_FALSE(scaled.HasRecentOverflows());  // perhaps the scale
    Run(scaled, ctx, 1, /*is_finite=*/false);
    CHECK(scaled.HasRecentOverflows());
  }
  {
    DecisionQueue resumed(ctx, {});
    resumed.Restore({.optimizer_steps = 5});
    Run(resumed, ctx, 3, /*is_finite=*/false);
    CHECK_FALSE(resumed.HasRecentOverflows());  // weights of a checkpoint, unchanged
  }
}

TEST_CASE("ranks that decided alone agree on the most careful state") {
  const auto states = testing::RunRanks(2, [](Communicator& comm) {
    Context ctx({}, {.rank = comm.rank()});
    DecisionQueue decisions(ctx, {.loss_scaler = {.on = true}});
    Run(decisions, ctx, 3, /*is_finite=*/comm.rank() == 0);
    decisions.AgreeAcrossRanks(comm);
    TrainState state;
    decisions.Save(state);
    return state;
  });
  for (const TrainState& state : states) {
    CHECK(state.optimizer_steps == 3);
    CHECK(state.skipped == 3);
    CHECK(state.loss_scaler.scale == LossScalerOptions().initial / 8);
    CHECK(state.loss_scaler.good_updates == 0);
  }
}

TEST_CASE("a restored queue continues with scale and steps of the checkpoint") {
  Context ctx;
  DecisionQueue decisions(ctx, {.loss_scaler = {.on = true}});
  decisions.Restore({.optimizer_steps = 7, .skipped = 2, .loss_scaler = {.scale = 64.0}});
  Run(decisions, ctx, 1, /*is_finite=*/true);
  TrainState state;
  decisions.Save(state);
  CHECK(state.optimizer_steps == 8);
  CHECK(state.skipped == 2);
  CHECK(state.loss_scaler.scale == 64.0);
}

}  // namespace
}  // namespace dtrain
