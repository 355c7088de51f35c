// mixed_precision_test.cc - whole runs in every element type of the device, and loss scaling.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

bool IsFloat16(DType dtype) { return dtype == DType::kFloat16; }

ToyRun RunIn(DType dtype, const ToyCorpus& corpus) {
  ToyRun run = MakeToyRun(corpus);
  run.task.compute_type = dtype;
  run.trainer.max_steps = 3;
  run.trainer.loss_scaler.on = IsFloat16(dtype);
  return run;
}

TEST_CASE("a run in any precision takes the losses where float32 on the CPU takes them") {
  const ToyCorpus corpus(40, 2);
  ToyRun reference = RunIn(DType::kFloat32, corpus);
  reference.task.device = {};
  const ToyResult expected = TrainToy(reference)[0];
  REQUIRE(expected.losses.size() == 3);
  for (const DType dtype : testing::FloatTypes()) {
    for (const int ranks : {1, 2}) {
      INFO(Name(dtype) << ", " << ranks << " ranks");
      ToyRun run = RunIn(dtype, corpus);
      run.ranks = ranks;
      const ToyResult result = TrainToy(run)[0];
      CHECK(result.exit_code == ExitCode::kDone);
      CHECK(result.state.skipped == 0);
      REQUIRE(result.losses.size() == expected.losses.size());
      const double tolerance = dtype == DType::kFloat32 ? 1e-5 : 1e-2;
      for (size_t i = 0; i < expected.losses.size(); ++i) {
        CHECK(result.losses[i] == Approx(expected.losses[i]).epsilon(tolerance));
      }
    }
  }
}

TEST_CASE("a loss scale that overflows skips updates and halves until it fits") {
  const ToyCorpus corpus(40, 2);
  for (const DType dtype : testing::FloatTypes()) {
    if (!IsFloat16(dtype)) continue;
    ToyRun run = RunIn(dtype, corpus);
    run.trainer.loss_scaler.initial = 1073741824.0;
    run.trainer.loss_scaler.maximum = 1073741824.0;
    run.trainer.max_steps = 12;
    const ToyResult result = TrainToy(run)[0];
    CHECK(result.exit_code == ExitCode::kDone);
    CHECK(result.state.skipped > 0);
    CHECK(result.state.skipped < 12);
    CHECK(result.state.optimizer_steps == 12 - result.state.skipped);
    CHECK(result.state.loss_scaler.scale ==
          1073741824.0 / std::exp2(static_cast<double>(result.state.skipped)));
    for (const float weight : result.weights) REQUIRE(std::isfinite(weight));
  }
}

TEST_CASE("stop and resume is never stopping in any precision, loss scale included") {
  const ToyCorpus corpus(40, 2);
  for (const DType dtype : testing::FloatTypes()) {
    INFO(Name(dtype));
    const auto make = [&](const TemporaryFolder& folder) {
      ToyRun run = RunIn(dtype, corpus);
      run.ranks = 2;
      run.recompute = Recompute::kCheap;
      run.trainer.loss_scaler.growth_interval = 2;
      run.task.model.dropout = 0.1f;
      run.trainer.max_steps = 4;
      run.trainer.adam = {.ema_decay = 0.9f};
      run.trainer.checkpoint_dir = folder.File("ckpt");
      run.resume = "auto";
      return run;
    };
    const TemporaryFolder whole_folder, folder;
    const ToyResult whole = TrainToy(make(whole_folder))[0];
    REQUIRE(whole.exit_code == ExitCode::kDone);
    ToyRun run = make(folder);
    StopFlags flags;
    run.stop_flags = &flags;
    run.before_update = [&flags](int64_t step, ParameterSet&) {
      if (step == 1) flags.stop = true;
    };
    CHECK(TrainToy(run)[0].exit_code == ExitCode::kStopped);
    const ToyResult resumed = TrainToy(make(folder))[0];
    CHECK(resumed.exit_code == ExitCode::kDone);
    CHECK(resumed.weights == whole.weights);
    CHECK(resumed.first_moments == whole.first_moments);
    CHECK(resumed.second_moments == whole.second_moments);
    CHECK(resumed.average == whole.average);
    CHECK(resumed.state.loss_scaler.scale == whole.state.loss_scaler.scale);
    CHECK(resumed.state.loss_scaler.good_updates == whole.state.loss_scaler.good_updates);
  }
}

}  // namespace
}  // namespace dtrain
