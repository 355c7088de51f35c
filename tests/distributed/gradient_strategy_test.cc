// gradient_strategy_test.cc - what the three ways to update promise to the loop above them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/gradient_strategy.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

constexpr int64_t kElements = 3 * OptimizerShards::BlockOn({});
constexpr double kCount = static_cast<double>(kElements);

// One weight matrix of ones, whose gradient is the rank's number from 1.
struct Model {
  explicit Model(Communicator& comm, const GradientStrategyOptions& options) {
    parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
    strategy = MakeGradientStrategy(options, {parameters, comm, timeline, scale});
  }
  // One update; returns the sum of squares that the strategy sees.
  double Update(int64_t step, float gradient) {
    Stream stream;
    DT_CHECK(strategy->BeginUpdate(/*tokens=*/2).ok());
    std::fill_n(weight.gradient().data<float>(), kElements, gradient);
    strategy->MarkAllReady();
    strategy->FinishGradients();
    strategy->SumOfSquares(squares, stream);
    strategy->optimizer().Step(/*learning_rate=*/0.01f, /*gradient_scale=*/1.0f, stream);
    strategy->GatherWeights(step, stream);
    return *squares.data<double>();
  }
  std::vector<float> Weights() {
    const float* const data = parameters.weights().data<float>();
    return {data, data + kElements};
  }

  ParameterSet parameters;
  Parameter& weight = Scope(parameters, "model").Add("w", {kElements}, Initializer::Constant(1.0f));
  Timeline timeline;
  std::vector<float> scale_memory = {1.0f};
  std::vector<double> squares_memory = {0.0, 0.0};
  Tensor scale = Tensor(scale_memory.data(), {1}, DType::kFloat32);
  Tensor squares = Tensor(squares_memory.data(), {2}, DType::kFloat64);
  std::unique_ptr<GradientStrategy> strategy;
};

TEST_CASE("a sharded optimizer gives the weights and norm of summed gradients") {
  const auto train = [](bool shard_optimizer) {
    return testing::RunRanks(2, [&](Communicator& comm) {
      Model model(comm, {.shard_optimizer = shard_optimizer});
      DT_CHECK_EQ(model.strategy->optimizer().is_sharded(), shard_optimizer);
      DT_CHECK_EQ(model.strategy->shards() != nullptr, shard_optimizer);
      DT_CHECK_EQ(model.strategy->CountTokens(/*own=*/3, /*all=*/7), 7);
      double squares = 0.0;
      for (int64_t step = 0; step < 3; ++step) {
        squares = model.Update(step, static_cast<float>(comm.rank() + 1));
      }
      DT_CHECK(model.strategy->HasEqualReplicas());
      return std::pair(squares, model.Weights());
    });
  };
  const auto summed = train(false);
  const auto sharded = train(true);
  CHECK(summed[0].first == 9.0 * kCount);
  CHECK(summed[0] == summed[1]);
  CHECK(sharded[0] == summed[0]);
  CHECK(sharded[1] == summed[0]);
}

TEST_CASE("local updates differ between ranks until their average") {
  struct Result {
    bool equal_before = false, equal_within = true, equal_after = false;
    std::string started;
    std::vector<float> weights;
  };
  const auto results = testing::RunRanks(2, [](Communicator& comm) {
    Result result;
    Model model(comm, {.sync_every = 2, .sync_every_start = 1});
    GradientStrategy& strategy = *model.strategy;
    DT_CHECK(!strategy.StartsLocalUpdates(0));
    DT_CHECK_EQ(strategy.CountTokens(/*own=*/3, /*all=*/7), 7);
    const double gradient = comm.rank() + 1;
    DT_CHECK_EQ(model.Update(1, static_cast<float>(gradient)), 9.0 * kCount);
    DT_CHECK(!strategy.IsAverageDue(1));
    DT_CHECK(strategy.IsReplicaCheckDue(1, /*every=*/1));
    DT_CHECK(strategy.StartsLocalUpdates(1));
    result.started = strategy.StartLocalUpdates();
    DT_CHECK(!strategy.StartsLocalUpdates(1));
    result.equal_before = strategy.HasEqualReplicas();
    for (int64_t step = 2; step <= 3; ++step) {
      DT_CHECK_EQ(strategy.CountTokens(/*own=*/3, /*all=*/7), 3);
      DT_CHECK_EQ(model.Update(step, static_cast<float>(gradient)), gradient * gradient * kCount);
      DT_CHECK_EQ(strategy.IsAverageDue(step), step == 3);
      DT_CHECK_EQ(strategy.IsReplicaCheckDue(step, /*every=*/1), step == 3);
    }
    result.equal_within = strategy.HasEqualReplicas();
    strategy.AverageReplicas(3);
    result.equal_after = strategy.HasEqualReplicas();
    result.weights = model.Weights();
    return result;
  });
  for (const Result& result : results) {
    CHECK(result.equal_before);
    CHECK_FALSE(result.equal_within);
    CHECK(result.equal_after);
    CHECK(result.started == "from here on ranks update alone and take their mean every 2 updates");
    CHECK(result.weights == results[0].weights);
  }
}

TEST_CASE("work on the root happens once, and a rank alone shards and averages nothing") {
  const auto calls = testing::RunRanks(2, [](Communicator& comm) {
    Model model(comm, {.shard_optimizer = true});
    int count = 0;
    const Status status = model.strategy->OnRoot([&] {
      ++count;
      return StorageError("the disk is full");
    });
    DT_CHECK_EQ(status.ok(), !comm.is_root());
    return count;
  });
  CHECK(calls == std::vector<int>{1, 0});
  SelfCommunicator alone;
  Model model(alone, {.shard_optimizer = true, .sync_every = 4});
  CHECK(model.strategy->shards() == nullptr);
  CHECK_FALSE(model.strategy->StartsLocalUpdates(0));
  CHECK_FALSE(model.strategy->IsReplicaCheckDue(10, 10));
}

TEST_CASE("options that contradict each other are refused") {
  const auto make = [](const GradientStrategyOptions& options) {
    static_cast<void>(testing::RunRanks(2, [&](Communicator& comm) {
      const Model model(comm, options);
      return 0;
    }));
  };
  CHECK_THROWS_WITH(make({.reducer = {.power_sgd = {.rank = 1}}, .sync_every = 2}),
                    Catch::Contains("ranks that update alone send no gradients"));
  CHECK_THROWS_WITH(make({.shard_optimizer = true, .sync_every = 2}),
                    Catch::Contains("ranks that update alone need all moments"));
}

TEST_CASE("PowerSGD asks for the tokens of an update") {
  SelfCommunicator comm;
  Model model(comm, {.reducer = {.power_sgd = {.rank = 1}}});
  CHECK(model.strategy->BeginUpdate(/*tokens=*/0).code() == ExitCode::kUsage);
  CHECK(model.strategy->BeginUpdate(/*tokens=*/5).ok());
}

}  // namespace
}  // namespace dtrain
