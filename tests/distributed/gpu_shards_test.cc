// gpu_shards_test.cc - sharded optimizers on GPUs, on the emulated NCCL: the whole one's weights.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/device/buffer.h"
#include "dtrain/distributed/optimizer_shards.h"
#include "dtrain/ops/cast.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
#include "testing/host_executor/gpus.h"
#include "testing/host_executor/nccl.h"
#include "testing/tolerance.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

using host_executor::BytesToHost;
using host_executor::Nccl;
using testing::RunRanks;

constexpr Device kGpu = {DeviceType::kCuda};
using Configure = std::function<void(ToyRun&)>;

// Four updates without clipping; NCCL's twin adds in the same order with shards and without.
ToyRun GpuRun(const ToyCorpus& corpus, const TemporaryFolder& folder, int ranks) {
  ToyRun run = MakeToyRun(corpus);
  run.ranks = ranks;
  run.nccl = true;
  run.task.device = kGpu;
  run.task.model.dropout = 0.1f;
  run.trainer.max_steps = 4;
  run.trainer.clip_norm = 0.0;
  run.trainer.adam = {.weight_decay = 0.01f};
  run.trainer.checkpoint_dir = folder.File("ckpt");
  run.trainer.best_metric = "nll";
  run.resume = "auto";
  return run;
}

std::string TensorsOf(const TemporaryFolder& folder, int64_t step) {
  const std::string path = folder.File("ckpt") + "/" + CheckpointName(step);
  return ReadTestFile(path + "/model.safetensors") + ReadTestFile(path + "/optimizer.safetensors");
}

struct Pair {
  std::vector<ToyResult> whole, sharded;
  bool has_same_checkpoint = false;
};

// Runs as configured, once whole and once sharded, and checks what holds for all such pairs.
Pair RunBoth(const ToyCorpus& corpus, int ranks, const Configure& configure) {
  const TemporaryFolder whole_folder, sharded_folder;
  Pair pair;
  ToyRun run = GpuRun(corpus, whole_folder, ranks);
  configure(run);
  pair.whole = TrainToy(run);
  run.trainer.checkpoint_dir = sharded_folder.File("ckpt");
  run.trainer.shard_optimizer = true;
  pair.sharded = TrainToy(run);
  size_t moments = 0;
  for (const ToyResult& result : pair.sharded) {
    CHECK(result.message == "");
    CHECK(result.weights == pair.sharded[0].weights);
    CHECK(result.state.skipped == pair.whole[0].state.skipped);
    if (ranks > 1) CHECK(result.first_moments.size() < pair.whole[0].first_moments.size());
    moments += result.first_moments.size();
  }
  CHECK(moments == pair.whole[0].first_moments.size());
  const int64_t step = run.trainer.max_steps;
  pair.has_same_checkpoint = TensorsOf(whole_folder, step) == TensorsOf(sharded_folder, step);
  return pair;
}

bool HaveSameWeights(const Pair& pair) { return pair.sharded[0].weights == pair.whole[0].weights; }

TEST_CASE("a GPU's sharded optimizer gives the weights and checkpoints of a whole one") {
  const ToyCorpus corpus(12, 1);
  for (const int ranks : {1, 2, 4}) {
    INFO(ranks << " ranks");
    const Pair pair = RunBoth(corpus, ranks, [](ToyRun& run) {
      run.trainer.max_steps = 3;
      run.trainer.adam.ema_decay = 0.9f;  // weights and average are exchanged for evaluations
      run.trainer.eval_every = {PeriodUnit::kUpdates, 2};
    });
    CHECK(HaveSameWeights(pair));
    CHECK(pair.has_same_checkpoint);
    REQUIRE(pair.sharded[0].evaluations.size() == pair.whole[0].evaluations.size());
    for (size_t i = 0; i < pair.whole[0].evaluations.size(); ++i) {
      CHECK(pair.sharded[0].evaluations[i].metrics == pair.whole[0].evaluations[i].metrics);
    }
  }
}

TEST_CASE("so it does in 16 bits, on the wire as well") {
  const ToyCorpus corpus(12, 1);
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    INFO(Name(type));
    const Pair pair = RunBoth(corpus, 2, [&](ToyRun& run) {
      run.task.compute_type = type;
      run.trainer.reducer.wire_type = type;
      run.trainer.loss_scaler.on = type == DType::kFloat16;
    });
    CHECK(HaveSameWeights(pair));
    CHECK(pair.has_same_checkpoint);
    CHECK(pair.sharded[0].state.skipped == 0);
  }
}

TEST_CASE("updates whose float16 gradients overflow are skipped on all GPUs") {
  const ToyCorpus corpus(12, 1);
  const Pair pair = RunBoth(corpus, 2, [](ToyRun& run) {
    run.task.compute_type = DType::kFloat16;
    run.trainer.loss_scaler = {.on = true, .initial = 1 << 23};
    run.trainer.max_steps = 6;
  });
  CHECK(pair.sharded[0].state.skipped > 0);
  CHECK(pair.sharded[0].state.skipped < 6);
  CHECK(pair.sharded[0].state.loss_scaler.scale == pair.whole[0].state.loss_scaler.scale);
  CHECK(HaveSameWeights(pair));
}

TEST_CASE("gradients are clipped by the norm of all GPUs' shards") {
  const ToyCorpus corpus(12, 1);
  const Pair pair = RunBoth(corpus, 4, [](ToyRun& run) { run.trainer.clip_norm = 0.5; });
  const std::vector<StepRecord>& whole = pair.whole[0].records;
  REQUIRE(pair.sharded[0].records.size() == whole.size());
  CHECK(whole.front().gradient_norm > 0.5);
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const ToyResult& rank : pair.sharded) {
      CHECK(rank.records[i].gradient_norm ==
            Approx(whole[i].gradient_norm).epsilon(i == 0 ? 1e-12 : 1e-6).margin(0));
      CHECK(rank.records[i].gradient_norm == pair.sharded[0].records[i].gradient_norm);
    }
  }
  CHECK(LargestDifference(pair.sharded[0].weights, pair.whole[0].weights) < 1e-6);
}

TEST_CASE("trust ratios come from the norms of all GPUs' parts") {
  const ToyCorpus corpus(12, 1);
  for (const bool nccl : {true, false}) {
    const Pair pair = RunBoth(corpus, nccl ? 4 : 2, [&](ToyRun& run) {
      run.nccl = nccl;
      run.trainer.adam.trust_ratio = AdamConfig::TrustRatio::kAll;
      run.trainer.adam.epsilon = 1e-6f;
      run.trainer.clip_norm = 1.0;
    });
    CHECK(LargestDifference(pair.sharded[0].weights, pair.whole[0].weights) < 1e-6);
  }
}

TEST_CASE("on two hosts, where sums take other ways, weights differ by rounding alone") {
  const ToyCorpus corpus(12, 1);
  const Pair pair = RunBoth(corpus, 4, [](ToyRun& run) {
    run.hosts = {"a", "a", "b", "b"};
    run.trainer.adam.epsilon = 1e-3f;  // updates follow the gradients smoothly
  });
  CHECK(LargestDifference(pair.sharded[0].weights, pair.whole[0].weights) < 1e-6);
}

TEST_CASE("without NCCL gradients and weights of a sharded run pass through the host") {
  const ToyCorpus corpus(12, 1);
  const Pair pair = RunBoth(corpus, 2, [](ToyRun& run) {
    run.nccl = false;
    run.task.compute_type = DType::kBFloat16;
  });
  CHECK(HaveSameWeights(pair));
  CHECK(pair.has_same_checkpoint);
}

TEST_CASE("GPUs' shards are cut anew where a run goes on with another number of ranks") {
  const ToyCorpus corpus(12, 1);
  const TemporaryFolder whole_folder, sharded_folder;
  int64_t steps = 0;
  for (const int ranks : {4, 1, 2}) {
    ++steps;
    ToyRun run = GpuRun(corpus, whole_folder, ranks);
    run.trainer.max_steps = steps;
    const std::vector<ToyResult> whole = TrainToy(run);
    run.trainer.checkpoint_dir = sharded_folder.File("ckpt");
    run.trainer.shard_optimizer = true;
    INFO("after " << steps << " updates, the last on " << ranks << " ranks");
    for (const ToyResult& result : TrainToy(run)) {
      CHECK(result.message == "");
      CHECK(result.state.step == steps);
      CHECK(result.weights == whole[0].weights);
    }
    CHECK(TensorsOf(sharded_folder, steps) == TensorsOf(whole_folder, steps));
  }
}

// The most bytes that a rank copied to the host from one update to the next, and fewest of those
// that came with a sharded run's update.
struct Copied {
  int64_t most = 0;
  int64_t bytes_of_weights = 0;
};

Copied CopiedByUpdate(const ToyCorpus& corpus, bool nccl, bool recorded) {
  const TemporaryFolder folder;
  ToyRun run = GpuRun(corpus, folder, 2);
  run.nccl = nccl;
  run.trainer.shard_optimizer = true;
  run.trainer.clip_norm = 0.5;
  run.trainer.checkpoint_dir = "";
  run.resume = "never";
  run.trainer.cuda_graphs = recorded ? CudaGraphs::kOn : CudaGraphs::kOff;
  std::mutex mutex;
  Copied copied;
  run.before_update = [&](int64_t step, ParameterSet& parameters) {
    static thread_local int64_t before = 0;
    const std::scoped_lock lock(mutex);
    if (step > 0) copied.most = std::max(copied.most, BytesToHost() - before);
    before = BytesToHost();
    copied.bytes_of_weights = static_cast<int64_t>(parameters.weights().bytes());
  };
  for (const ToyResult& result : TrainToy(run)) CHECK(result.message == "");
  return copied;
}

TEST_CASE("an update of a sharded run copies decisions to the host, no gradients or weights") {
  const ToyCorpus corpus(12, 1);
  for (const bool recorded : {false, true}) {
    const Copied copied = CopiedByUpdate(corpus, /*nccl=*/true, recorded);
    CHECK(copied.most <= 1024);
    CHECK(copied.bytes_of_weights > 100 * 1024);
  }
  // Through the host: the gradients, and this rank's weights.
  const Copied copied = CopiedByUpdate(corpus, /*nccl=*/false, /*recorded=*/false);
  CHECK(copied.most >= copied.bytes_of_weights + copied.bytes_of_weights / 2);
}

TEST_CASE("a rank whose weights never come is named") {
  const auto errors = RunRanks(
      2,
      [](Communicator& comm) -> std::string {
        ParameterSet parameters;
        Scope(parameters, "model").Add("w", {999}, Initializer::Constant(1.0f));
        parameters.Allocate(kGpu, DType::kFloat32, /*seed=*/1);
        Stream stream(kGpu);
        GradientReducer reducer(
            parameters, comm, {.scatter_block = OptimizerShards::BlockOn(kGpu), .stream = stream});
        OptimizerShards shards(parameters, comm, reducer);
        shards.Await();  // for nothing
        try {
          if (comm.rank() == 0) {
            shards.GatherWeights(stream);
            shards.Await();
          }
        } catch (const CommError& error) {
          return error.what();
        }
        return "";
      },
      {.timeout_seconds = 1.0, .slow_seconds = 0.3});
  CHECK_THAT(errors[0], Catch::Contains("collective number") && Catch::Contains("rank 1 (host a)"));
}

}  // namespace
}  // namespace dtrain
