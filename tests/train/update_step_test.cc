// update_step_test.cc - one update: micro-batches add up, ranks exchange, the optimizer applies.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/update_step.h"

#include <memory>
#include <utility>

#include "dtrain/comm/self_communicator.h"
#include "dtrain/train/decision_queue.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"
#include "testing/tiny_task.h"

namespace dtrain {
namespace {

// A task that may promise another number of tokens than it has, as one rank's.
class CountingTask final : public testing::TinyTask {
 public:
  CountingTask(testing::TinyTaskOptions options, int64_t promised)
      : TinyTask(std::move(options)), promised_(promised) {}
  BatchInfo batch() const override { return {.source_tokens = 5, .global_tokens = promised_}; }

 private:
  int64_t promised_;
};

// What an UpdateStep is given by its trainer.
struct Parts {
  Parts(Communicator& communicator, int micro_batches, int64_t promised = 0,
        const TrainerOptions& trainer_options = {})
      : comm(communicator),
        options(trainer_options),
        task({.micro_batches = micro_batches}, promised) {}

  Communicator& comm;
  const TrainerOptions options;
  CountingTask task;
  Context ctx{{}, {.rank = comm.rank()}};
  StepTimeline timeline{comm, {}};
  DecisionQueue decisions{ctx, RulesOf(options, /*losses_per_update=*/0.0)};
  std::unique_ptr<GradientStrategy> strategy = MakeGradientStrategy(
      {}, {task.parameters(), comm, timeline.spans(), decisions.step().loss_scale()});
  UpdateStep step{task, comm, ctx, timeline, *strategy, decisions.step(), options};
  RequestInbox inbox;
  RunClock clock;
};

TEST_CASE("an update adds up micro-batches and ranks, and tells all ranks the root's clock") {
  struct Result {
    IssuedUpdate update;
    float gradient = 0.0f, weight = 0.0f;
    bool was_training = false;
  };
  const auto results = testing::RunRanks(2, [](Communicator& comm) {
    StopFlags flags;
    flags.checkpoint = comm.rank() == 1;
    Parts parts(comm, /*micro_batches=*/3);
    parts.inbox.set_flags(&flags);
    parts.clock.Start(comm.is_root() ? 1000.0 : 5.0);
    StatusOr<IssuedUpdate> update = parts.step.ComputeGradients(0, parts.inbox, parts.clock);
    DT_CHECK(update.ok());
    Result result{.update = *update, .was_training = parts.ctx.training()};
    result.gradient = parts.task.parameters().gradients().data<float>()[0];
    update->learning_rate = 0.25;
    update->step = 1;
    parts.step.ApplyGradients(*update);
    parts.decisions.Push(*update);
    DT_CHECK(parts.decisions.Pop(/*all=*/true).has_value());
    result.weight = parts.task.parameters().weights().data<float>()[0];
    return result;
  });
  for (const Result& result : results) {
    CHECK(result.update.own_tokens == 3);
    CHECK(result.update.sums.tokens == 6);
    CHECK(result.update.source_tokens == 10.0);
    CHECK(result.update.requests == Requests{.checkpoint = true});
    CHECK(result.update.seconds == results[0].update.seconds);
    CHECK(result.update.seconds >= 1000.0);
    CHECK(result.gradient == -6.0f);  // of weights 0 that should be 1
    CHECK(result.weight > 0.0f);
    CHECK(result.weight == results[0].weight);
    CHECK_FALSE(result.was_training);
  }
}

TEST_CASE("a number of tokens that the losses do not have is an error that names both") {
  SelfCommunicator comm;
  Parts right(comm, /*micro_batches=*/2, /*promised=*/2);
  CHECK(right.step.ComputeGradients(0, right.inbox, right.clock).ok());
  Parts wrong(comm, /*micro_batches=*/2, /*promised=*/3);
  CHECK_THROWS_WITH(wrong.step.ComputeGradients(0, wrong.inbox, wrong.clock),
                    Catch::Contains("global_tokens = 3, but the losses of all ranks cover 2"));
}

TEST_CASE("the memory of activations is reported if it was planned") {
  SelfCommunicator comm;
  Parts parts(comm, /*micro_batches=*/1, /*promised=*/0, {.planned_activation_bytes = 3 << 20});
  CHECK(parts.step.DescribeMemory().empty());  // no update yet
  StatusOr<IssuedUpdate> update = parts.step.ComputeGradients(0, parts.inbox, parts.clock);
  REQUIRE(update.ok());
  parts.step.ApplyGradients(*update);
  CHECK(parts.step.count() == 1);
  CHECK_THAT(parts.step.DescribeMemory(), Catch::Contains("in 1 updates, 3.0 MiB were planned"));
  CHECK(Parts(comm, 1).step.DescribeMemory().empty());
}

}  // namespace
}  // namespace dtrain
