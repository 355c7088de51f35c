// step_graphs_test.cc - recorded steps and late metrics change nothing that a run does or writes.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dtrain/device/copy.h"
#include "dtrain/device/graph.h"
#include "dtrain/distributed/internal/host_gradients.h"
#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

using testing::TestDevice;

bool OnGpu() { return TestDevice().type == DeviceType::kCuda; }

// Each update is the whole corpus: other places in each batch, but the same shapes.
ToyRun RepeatingRun(const ToyCorpus& corpus, CudaGraphs graphs) {
  ToyRun run = MakeToyRun(corpus);
  run.task.compute_type = OnGpu() ? DType::kFloat16 : DType::kFloat32;
  run.task.batch.tokens_per_batch = 100000;
  run.task.micro_batch_tokens = 100000;
  run.task.model.dropout = 0.1f;
  run.task.model.attention_dropout = 0.1f;
  run.trainer.max_steps = 6;
  run.trainer.adam = {.weight_decay = 0.01f, .ema_decay = 0.9f};
  // The first updates overflow and are skipped: the scale is of the mean over tokens_per_batch.
  run.trainer.loss_scaler = {
      .on = OnGpu(), .initial = 0x1p40, .maximum = 0x1p40, .growth_interval = 2};
  run.trainer.cuda_graphs = graphs;
  return run;
}

void CheckSameRun(const ToyResult& actual, const ToyResult& expected) {
  CHECK(actual.exit_code == expected.exit_code);
  CHECK(actual.losses == expected.losses);
  CHECK(actual.tokens == expected.tokens);
  CHECK(actual.events == expected.events);
  CHECK(actual.weights == expected.weights);
  CHECK(actual.first_moments == expected.first_moments);
  CHECK(actual.average == expected.average);
  CHECK(actual.state.skipped == expected.state.skipped);
  CHECK(actual.state.loss_scaler.scale == expected.state.loss_scaler.scale);
  REQUIRE(actual.records.size() == expected.records.size());
  for (size_t i = 0; i < actual.records.size(); ++i) {
    CHECK(actual.records[i].step == expected.records[i].step);
    CHECK(actual.records[i].nll == expected.records[i].nll);
    CHECK(actual.records[i].skipped == expected.records[i].skipped);
    CHECK(actual.records[i].learning_rate == expected.records[i].learning_rate);
    CHECK(actual.records[i].epoch == expected.records[i].epoch);
  }
}

TEST_CASE("steps that are repeated from graphs give the bits of steps that are issued") {
  const ToyCorpus corpus(6, 1);
  const ToyResult issued = TrainToy(RepeatingRun(corpus, CudaGraphs::kOff))[0];
  CHECK(issued.graphs_repeated == 0);
  CHECK(issued.exit_code == ExitCode::kDone);
  CHECK(issued.losses.size() == 6);
  for (const CudaGraphs graphs : {CudaGraphs::kAuto, CudaGraphs::kOn}) {
    const ToyResult repeated = TrainToy(RepeatingRun(corpus, graphs))[0];
    CheckSameRun(repeated, issued);
    // The micro-batch and the update, each issued twice and recorded then.
    CHECK(repeated.graphs_recorded == (OnGpu() ? 2 : 0));
    CHECK(repeated.graphs_repeated == (OnGpu() ? 2 * 4 : 0));
  }
  if (OnGpu()) CHECK(issued.state.skipped > 0);
}

TEST_CASE("so do several micro-batches of an update, on several ranks, and with recomputation") {
  const ToyCorpus corpus(6, 1);
  const auto run_with = [&](CudaGraphs graphs) {
    ToyRun run = RepeatingRun(corpus, graphs);
    run.ranks = 2;
    run.recompute = Recompute::kCheap;
    run.task.batch.tokens_per_batch = 120;
    run.task.micro_batch_tokens = 30;
    run.trainer.max_steps = 4;
    return TrainToy(run);
  };
  const std::vector<ToyResult> issued = run_with(CudaGraphs::kOff);
  const std::vector<ToyResult> repeated = run_with(CudaGraphs::kOn);
  for (size_t rank = 0; rank < 2; ++rank) CheckSameRun(repeated[rank], issued[rank]);
  if (OnGpu()) CHECK(repeated[0].graphs_repeated >= 2);
  // By itself, gradients that travel beside backward are worth more.
  CHECK(run_with(CudaGraphs::kAuto)[0].graphs_repeated == 0);
}

TEST_CASE("ranks of one process fetch their gradients while another one records its step") {
  if (!OnGpu()) return;
  Stream recorded(TestDevice());
  const Buffer from(TestDevice(), 400), to(TestDevice(), 400), memory(TestDevice(), 400);
  std::vector<float> fetched;
  const Graph graph(recorded, [&] {
    CopyOnDevice(to.data(), from.data(), 400, recorded);
    std::thread([&] {
      const Tensor flat(memory.data(), {100}, DType::kFloat32, TestDevice());
      Stream compute(TestDevice());
      internal::HostGradients gradients(flat, compute);
      const std::vector<float> ones(100, 1.0f);
      CopyToDevice(flat.raw(), ones.data(), 400, compute);
      gradients.Fetch({10, 20});
      fetched.assign(gradients.data() + 10, gradients.data() + 20);
      gradients.Return({10, 20});
      gradients.Synchronize();
    }).join();
  });
  CHECK(fetched == std::vector<float>(10, 1.0f));
}

TEST_CASE("where a step cannot be recorded, training goes on without graphs") {
  const ToyCorpus corpus(6, 1);
  const ToyResult issued = TrainToy(RepeatingRun(corpus, CudaGraphs::kOff))[0];
  ToyRun run = RepeatingRun(corpus, CudaGraphs::kOn);
  run.before_forward = [](Context& ctx) { ctx.stream().Synchronize(); };
  const ToyResult refused = TrainToy(run)[0];
  CheckSameRun(refused, issued);
  CHECK(refused.graphs_repeated <= 1);  // of the update, which came to be recorded first or not
}

TEST_CASE("what the host learns late is written as of the update it belongs to") {
  const ToyCorpus corpus(20, 1);
  const TemporaryFolder folder;
  ToyRun run = MakeToyRun(corpus);
  run.task.compute_type = OnGpu() ? DType::kFloat16 : DType::kFloat32;
  run.trainer.max_steps = 8;
  run.trainer.eval_every = {PeriodUnit::kUpdates, 4};
  run.trainer.checkpoint_dir = folder.File("ckpt");
  run.trainer.checkpoint_every = {PeriodUnit::kUpdates, 3};
  // Gradients of the third update are NaN.
  run.before_update = [](int64_t step, ParameterSet& parameters) {
    if (step != 2 && step != 3) return;
    Stream stream(parameters.weights().device());
    SynchronizeDevice(parameters.weights().device());
    Parameter& table = *parameters.in_backward_order().front();
    static float kept = 0.0f;
    float value = std::numeric_limits<float>::quiet_NaN();
    auto* const place = table.master().data<float>();
    if (step == 2) {
      CopyToHost(&kept, place, sizeof(kept), stream);
    } else {
      value = kept;
    }
    CopyToDevice(place, &value, sizeof(value), stream);
    stream.Synchronize();
    parameters.RefreshComputeWeights();
  };
  const ToyResult result = TrainToy(run)[0];
  CHECK(result.exit_code == ExitCode::kDone);
  CHECK(result.state.skipped == 1);
  CHECK(result.state.optimizer_steps == 7);
  REQUIRE(result.records.size() == 8);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(result.records[i].step == static_cast<int64_t>(i) + 1);
    CHECK(result.records[i].skipped == (i < 2 ? 0 : 1));
    CHECK(std::isnan(result.records[i].loss) == (i == 2));
  }
  // The checkpoint of update 3 is put off until an update has finite gradients.
  const std::vector<std::pair<int64_t, std::string>> expected = {
      {3, "skip"},       {4, "best"},       {4, "checkpoint"},
      {6, "checkpoint"}, {8, "checkpoint"}, {8, "stop"}};
  CHECK(result.events == expected);
}

}  // namespace
}  // namespace dtrain
