// optimizer_shards_test.cc - a sharded optimizer is the whole one, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/optimizer_shards.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
#include "testing/tolerance.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

using testing::RunRanks;

// Some 200,000 parameters in several buckets of a few blocks each: every one of four ranks has a
// shard, though not the same number of blocks.
ToyRun WideRun(const ToyCorpus& corpus, const TemporaryFolder& folder, int ranks) {
  ToyRun run = MakeToyRun(corpus);
  run.ranks = ranks;
  run.task.model.hidden_size = 64;
  run.task.model.ffn_size = 200;
  run.task.model.dropout = 0.1f;
  run.trainer.adam = {.weight_decay = 0.01f, .ema_decay = 0.9f};
  run.trainer.clip_norm = 0.5;  // below the norm of these gradients
  run.trainer.reducer = {.bucket_bytes = 300 << 10, .first_bucket_bytes = 100 << 10};
  run.trainer.eval_every = {PeriodUnit::kUpdates, 3};
  run.trainer.checkpoint_dir = folder.File("ckpt");
  run.trainer.best_metric = "nll";
  run.resume = "auto";
  return run;
}

std::string TensorsAt(const TemporaryFolder& folder, int64_t step) {
  const std::string path = folder.File("ckpt") + "/" + CheckpointName(step);
  return ReadTestFile(path + "/model.safetensors") + ReadTestFile(path + "/optimizer.safetensors");
}

// NaN differs from itself.
std::vector<double> WithoutNan(std::vector<double> values) {
  for (double& value : values) value = std::isnan(value) ? -1.0 : value;
  return values;
}

std::vector<double> NormsOf(const ToyResult& result) {
  std::vector<double> norms;
  for (const StepRecord& record : result.records) norms.push_back(record.gradient_norm);
  return WithoutNan(std::move(norms));
}

// "" where they are equal; the vectors are too long to be printed.
std::string FirstDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::to_string(a.size()) + " and " + std::to_string(b.size());
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin());
  if (in_a == a.end()) return "";
  return "[" + std::to_string(in_a - a.begin()) + "]: " + std::to_string(*in_a) + " and " +
         std::to_string(*in_b);
}

// Runs as configured and sharded; the results of the sharded one.
std::vector<ToyResult> CheckSharded(const ToyCorpus& corpus, int ranks,
                                    const std::function<void(ToyRun&)>& configure) {
  const TemporaryFolder whole_folder, sharded_folder;
  ToyRun run = WideRun(corpus, whole_folder, ranks);
  configure(run);
  const std::vector<ToyResult> whole = TrainToy(run);
  ToyRun sharded_run = WideRun(corpus, sharded_folder, ranks);
  configure(sharded_run);
  sharded_run.trainer.shard_optimizer = true;
  std::vector<ToyResult> sharded = TrainToy(sharded_run);
  int64_t moments = 0;
  for (size_t rank = 0; rank < sharded.size(); ++rank) {
    CHECK(sharded[rank].message == "");
    CHECK(FirstDifference(sharded[rank].weights, whole[0].weights) == "");
    CHECK(WithoutNan(sharded[rank].losses) == WithoutNan(whole[0].losses));
    CHECK(sharded[rank].state.skipped == whole[0].state.skipped);
    REQUIRE(sharded[rank].evaluations.size() == whole[0].evaluations.size());
    for (size_t i = 0; i < whole[0].evaluations.size(); ++i) {
      CHECK(sharded[rank].evaluations[i].metrics == whole[rank].evaluations[i].metrics);
    }
    CHECK(NormsOf(sharded[rank]) == NormsOf(whole[0]));
    moments += static_cast<int64_t>(sharded[rank].first_moments.size());
    if (ranks > 1) CHECK(sharded[rank].first_moments.size() < whole[0].first_moments.size());
  }
  CHECK(moments == static_cast<int64_t>(whole[0].first_moments.size()));
  CHECK(TensorsAt(sharded_folder, 5) == TensorsAt(whole_folder, 5));
  return sharded;
}

TEST_CASE("a sharded optimizer gives the weights, norms and checkpoints of a whole one") {
  const ToyCorpus corpus(70);
  for (const int ranks : {1, 2, 3, 4}) {
    INFO(ranks << " ranks");
    CheckSharded(corpus, ranks, [](ToyRun&) {});
  }
}

TEST_CASE("so it does in bfloat16, on the wire as well") {
  const ToyCorpus corpus(70);
  for (const int ranks : {2, 3}) {
    CheckSharded(corpus, ranks, [](ToyRun& run) {
      run.task.compute_type = DType::kBFloat16;
      run.trainer.reducer.wire_type = DType::kBFloat16;
    });
  }
}

TEST_CASE("an update whose gradients hold NaN is skipped on all ranks") {
  const ToyCorpus corpus(70);
  const auto sharded = CheckSharded(corpus, 3, [](ToyRun& run) {
    run.trainer.max_steps = 5;
    run.before_update = [](int64_t step, ParameterSet& parameters) {
      // A weight of one rank's shard, for one update.
      static thread_local float held = 0.0f;
      float& weight = parameters.in_backward_order().back()->master().data<float>()[5];
      if (step == 2) {
        held = weight;
        weight = std::numeric_limits<float>::quiet_NaN();
      } else if (step == 3) {
        weight = held;
      }
    };
  });
  for (const ToyResult& result : sharded) CHECK(result.state.skipped == 1);
}

TEST_CASE("shards are cut anew where a run goes on with another number of ranks") {
  const ToyCorpus corpus(70);
  const TemporaryFolder whole_folder, sharded_folder;
  int64_t steps = 0;
  for (const int ranks : {4, 2, 1, 3}) {
    steps += 2;
    ToyRun run = WideRun(corpus, whole_folder, ranks);
    run.trainer.max_steps = steps;
    const std::vector<ToyResult> whole = TrainToy(run);
    ToyRun sharded_run = WideRun(corpus, sharded_folder, ranks);
    sharded_run.trainer.max_steps = steps;
    sharded_run.trainer.shard_optimizer = true;
    const std::vector<ToyResult> sharded = TrainToy(sharded_run);
    INFO("after " << steps << " updates, the last on " << ranks << " ranks");
    for (const ToyResult& result : sharded) {
      CHECK(result.message == "");
      CHECK(result.state.step == steps);
      CHECK(FirstDifference(result.weights, whole[0].weights) == "");
    }
    CHECK(TensorsAt(sharded_folder, steps) == TensorsAt(whole_folder, steps));
  }
}

TEST_CASE("a checkpoint the root cannot write, or does not find, ends all ranks with its error") {
  const ToyCorpus corpus(70);
  const TemporaryFolder folder;
  ToyRun run = WideRun(corpus, folder, 3);
  run.trainer.shard_optimizer = true;
  WriteTestFile(folder.File("file"), "");
  run.trainer.checkpoint_dir = folder.File("file") + "/ckpt";
  for (const ToyResult& result : TrainToy(run)) CHECK(result.exit_code == ExitCode::kStorage);
  run.trainer.checkpoint_dir = folder.File("ckpt");
  run.resume = folder.File("none");
  for (const ToyResult& result : TrainToy(run)) CHECK(result.exit_code == ExitCode::kUsage);
}

TEST_CASE("trust ratios come from the norms of all ranks' parts") {
  const ToyCorpus corpus(70);
  for (const int ranks : {2, 4}) {
    INFO(ranks << " ranks");
    const TemporaryFolder whole_folder, sharded_folder;
    ToyRun run = WideRun(corpus, whole_folder, ranks);
    run.trainer.adam.trust_ratio = AdamConfig::TrustRatio::kAll;
    run.trainer.adam.epsilon = 1e-6f;
    const std::vector<ToyResult> whole = TrainToy(run);
    run.trainer.checkpoint_dir = sharded_folder.File("ckpt");
    run.trainer.shard_optimizer = true;
    const std::vector<ToyResult> sharded = TrainToy(run);
    CHECK(LargestDifference(sharded[0].weights, whole[0].weights) < 1e-6);
    for (const ToyResult& result : sharded) {
      CHECK(result.message == "");
      CHECK(result.first_moments.size() < whole[0].first_moments.size());
      CHECK(FirstDifference(result.weights, sharded[0].weights) == "");
    }
  }
}

TEST_CASE("a shard by itself has no trust ratios") {
  const auto messages = RunRanks(2, [](Communicator& comm) -> std::string {
    ParameterSet parameters;
    Scope(parameters, "model").Add("weight", {300, 400}, Initializer::XavierUniform());
    parameters.Allocate({}, DType::kFloat32, 1);
    GradientReducer reducer(parameters, comm, {.scatter_block = OptimizerShards::BlockOn({})});
    const OptimizerShards shards(parameters, comm, reducer);
    try {
      const Adam adam(parameters, {.trust_ratio = AdamConfig::TrustRatio::kAll}, shards.mine());
    } catch (const CheckError& error) {
      return error.what();
    }
    return "";
  });
  for (const std::string& message : messages) {
    CHECK_THAT(message, Catch::Contains("trust ratios need whole parameters"));
  }
}

}  // namespace
}  // namespace dtrain
