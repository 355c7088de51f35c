// update_rules_test.cc - updates are the optimizer's by hand, with new dropout in each pass.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/dropout.h"
#include "dtrain/optim/adam.h"
#include "dtrain/optim/clip.h"
#include "dtrain/optim/lr_schedule.h"
#include "testing/catch.h"
#include "testing/tolerance.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

struct ByHand {
  std::vector<float> weights;
  double longest = 0.0;  // norm of a mean gradient
};

// The same updates with what a loop of one's own has: the host clips and steps.
ByHand TrainByHand(const ToyRun& run) {
  SelfCommunicator comm;
  const std::unique_ptr<TranslationTask> task = *TranslationTask::Create(run.task, comm);
  ParameterSet& parameters = task->parameters();
  Context ctx(run.task.device, {.seed = run.seed});
  ctx.set_training(true);
  Adam adam(parameters, run.trainer.adam);
  ByHand result;
  for (int64_t step = 0; step < run.trainer.max_steps; ++step) {
    const int micro_batches = *task->NextUpdate();
    Zero(parameters.gradients(), ctx.stream());
    LossSums sums;
    for (int i = 0; i < micro_batches; ++i) {
      task->Upload(i, ctx);
      sums += task->Forward(i, ctx);
      task->Backward(ctx);
    }
    const ClippedGradients clipped = ClipGradients(
        parameters, 1.0 / static_cast<double>(sums.tokens), run.trainer.clip_norm, ctx.stream());
    result.longest = std::max(result.longest, clipped.norm);
    adam.Step(static_cast<float>(LearningRate(run.trainer.learning_rate, step, 0.0)),
              clipped.gradient_scale, ctx.stream());
  }
  result.weights = internal::CopyOf(parameters.weights());
  return result;
}

TEST_CASE("an update is Adam's with the mean gradient, cut to the norm it may have") {
  const ToyCorpus corpus;
  for (const double clip_norm : {0.0, 0.25}) {
    for (const bool bias_correction : {true, false}) {
      INFO("clip_norm " << clip_norm << ", bias correction " << bias_correction);
      ToyRun run = MakeToyRun(corpus);
      run.task.micro_batch_tokens = 50;
      run.trainer.clip_norm = clip_norm;
      // Large, so that the update's length follows the gradient's.
      run.trainer.adam = {
          .epsilon = 1e-2f, .weight_decay = 0.01f, .bias_correction = bias_correction};
      const ByHand expected = TrainByHand(run);
      CHECK(expected.longest > 0.5);
      // A weight of 1 rounds to steps of 1.2e-7, and its two updates may round apart.
      CHECK(LargestDifference(TrainToy(run)[0].weights, expected.weights) < 2e-7);
    }
  }
}

TEST_CASE("each pass of each update draws other random numbers for dropout") {
  const ToyCorpus corpus;
  ToyRun run = MakeToyRun(corpus);
  run.task.micro_batch_tokens = 50;
  std::vector<uint32_t> steps;
  std::vector<uint32_t> updates;  // of rows with numbers
  run.before_forward = [&](Context& ctx) {
    steps.push_back(ctx.MakeDropout(0.5f, /*site=*/1).key.step);
    const Tensor numbers = ctx.Upload(std::vector<int32_t>{0});
    updates.push_back(ctx.MakeDropout(0.5f, /*site=*/1, numbers).key.step);
  };
  TrainToy(run);
  for (size_t i = 0; i < updates.size(); ++i) CHECK(updates[i] == updates[i - i % 3]);
  CHECK(std::set<uint32_t>(updates.begin(), updates.end()).size() == 5);
  CHECK(steps.size() == 15);  // of 5 updates, 3 passes in each
  CHECK(std::set<uint32_t>(steps.begin(), steps.end()).size() == steps.size());
}

}  // namespace
}  // namespace dtrain
