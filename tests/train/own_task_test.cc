// own_task_test.cc - what the trainer promises to tasks that others write: metrics, limits, checks.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "dtrain/train/trainer.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"
#include "testing/tiny_task.h"

namespace dtrain {
namespace {

using testing::TinyTask;
using testing::TinyTaskOptions;

using Metrics = std::vector<std::pair<std::string, double>>;

// What a run gave.
struct Run final : TrainObserver {
  absl::Status status;
  TrainState state;
  std::string reason;
  std::vector<std::string> directions;  // of the best checkpoint

  std::string message() const { return std::string(MessageOf(status)); }
  void OnEvent(int64_t /*step*/, const std::string& kind, const std::string& text) override {
    if (kind == "best") directions.push_back(text);
  }
};

TrainerOptions Options(int64_t updates) {
  return {.max_steps = updates,
          .learning_rate = {.base = 0.01},
          .eval_every = {PeriodUnit::kUpdates, 1},
          .log_every = 0};
}

Run Train(const TinyTaskOptions& task_options, const TrainerOptions& options, Communicator& comm,
          const std::string& resume = "auto") {
  Run run;
  TinyTask task(task_options);
  Context ctx({}, {.rank = comm.rank()});
  Trainer trainer(task, comm, ctx, options);
  trainer.set_observer(&run);
  run.status = trainer.Resume(resume);
  if (!run.status.ok()) return run;
  const absl::StatusOr<TrainResult> result = trainer.Run();
  run.status = result.status();
  run.state = trainer.state();
  if (result.ok()) run.reason = result->reason;
  return run;
}

Run Train(const TinyTaskOptions& task_options, const TrainerOptions& options,
          const std::string& resume = "auto") {
  SelfCommunicator comm;
  return Train(task_options, options, comm, resume);
}

TEST_CASE("a context of another rank or compute type is refused before anything is trained") {
  SelfCommunicator comm;
  TinyTask task;
  Context of_another_rank({}, {.rank = 1});
  CHECK_THROWS_WITH(Trainer(task, comm, of_another_rank, Options(1)),
                    Catch::Contains("1 vs 0") && Catch::Contains("ContextOptions::rank"));
  Context bfloat16({}, {.compute_type = DType::kBFloat16});
  CHECK_THROWS_WITH(
      Trainer(task, comm, bfloat16, Options(1)),
      Catch::Contains("allocated for float32") && Catch::Contains("computes in bfloat16"));
  TinyTask without_memory({.allocate = false});
  Context ctx;
  CHECK_THROWS_WITH(Trainer(without_memory, comm, ctx, Options(1)),
                    Catch::Contains("Allocate() comes first"));
}

TEST_CASE("a run without any limit is refused") {
  TrainerOptions options = Options(0);
  CHECK(ExitCodeOf(Train({}, options).status) == ExitCode::kUsage);
  CHECK_THAT(Train({}, options).message(), Catch::Contains("would never end: set max_steps"));
  options.early_stop.patience = 2;
  CHECK(CheckEnds(options).ok());
  options.eval_every = {};  // nothing that could stall
  CHECK(ExitCodeOf(CheckEnds(options)) == ExitCode::kUsage);
  options.max_epochs = 1;
  CHECK(CheckEnds(options).ok());
  options = {.max_seconds = 1.0};
  CHECK(CheckEnds(options).ok());
}

TEST_CASE("an update without micro-batches is refused with what to give in its place") {
  CHECK_THROWS_WITH(Train({.micro_batches = 0}, Options(1)),
                    Catch::Contains("NextUpdate() gave 0 micro-batches") &&
                        Catch::Contains("with an empty batch"));
}

TEST_CASE("PowerSGD is refused to a task that does not count its tokens") {
  for (const Run& run : testing::RunRanks(2, [](Communicator& comm) {
         TrainerOptions options = Options(2);
         options.reducer.power_sgd.rank = 1;
         return Train({}, options, comm);
       })) {
    CHECK(ExitCodeOf(run.status) == ExitCode::kUsage);
    CHECK_THAT(run.message(), Catch::Contains("override TrainingTask::global_tokens()"));
  }
}

}  // namespace
}  // namespace dtrain
