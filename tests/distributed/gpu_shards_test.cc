// gpu_shards_test.cc - sharded optimizers on GPUs, on the emulated NCCL: the whole one's weights.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dtrain/base/timeline.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/gradient_strategy.h"
#include "dtrain/distributed/optimizer_shards.h"
#include "dtrain/ops/cast.h"
#include "dtrain/optim/step_state.h"
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
using testing::ElementsOf;
using testing::OneHost;
using testing::RunRanks;
using testing::RunRanksOn;

constexpr Device kGpu = {DeviceType::kCuda};
constexpr int kUpdates = 4;

struct Case {
  DType compute_type = DType::kFloat32;
  DType wire_type = DType::kFloat32;
  AdamConfig adam = {.epsilon = 1e-3f, .weight_decay = 0.01f, .ema_decay = 0.9f};
  double clip_norm = 0.0;
  LossScalerOptions loss_scaler = {};
  int broken_update = -1;  // one whose gradients hold infinity on the last rank
  bool nccl = true;
};

// The state of a rank after kUpdates updates.
struct Outcome {
  std::vector<float> weights, averaged, moments;
  std::vector<float> compute_weights;  // widened
  std::vector<double> norms;
  int64_t steps = 0;       // that were not skipped
  int64_t to_host = 0;     // the most bytes of an update
  int64_t of_weights = 0;  // bytes
  int64_t collectives = 0;
};

// A model without layers, in buckets that several ranks cannot divide, updated as the trainer does.
class Model {
 public:
  Model(Communicator& comm, const Case& what, bool shards)
      : comm_(comm),
        scope_(parameters_, "model"),
        step_(kGpu, {.loss_scaler = what.loss_scaler,
                     .clip_norm = what.clip_norm,
                     .beta1 = what.adam.CorrectedBeta1(),
                     .beta2 = what.adam.CorrectedBeta2(),
                     .average_decay = what.adam.ema_decay}) {
    scope_.Add("table", {51, 16}, Initializer::Normal(0.5f));
    scope_.Add("weight", {77, 40}, Initializer::XavierUniform());
    scope_.Add("bias", {77}, Initializer::Constant(0.1f));
    scope_.Add("last", {13, 11}, Initializer::XavierUniform());
    parameters_.Allocate(kGpu, what.compute_type, /*seed=*/1);
    step_.Reset(InitialLossScale(what.loss_scaler), 0, stream_);
    strategy_ = MakeGradientStrategy({.reducer = {.bucket_bytes = 8000,
                                                  .first_bucket_bytes = 1000,
                                                  .wire_type = what.wire_type,
                                                  .stream = stream_},
                                      .adam = what.adam,
                                      .shard_optimizer = shards},
                                     {parameters_, comm_, timeline_, step_.loss_scale()});
  }

  StepState Update(int update, bool is_broken) {
    std::vector<float> gradients(static_cast<size_t>(parameters_.size()));
    const auto phase = static_cast<float>(5 * comm_.rank() + update);
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = 3.0f * std::sin(0.37f * static_cast<float>(i) + phase);
    }
    if (is_broken) gradients[700] = std::numeric_limits<float>::infinity();
    Upload<float>(gradients, parameters_.gradients(), stream_);
    DT_CHECK(strategy_->BeginUpdate(/*tokens=*/2).ok());
    strategy_->MarkAllReady();
    strategy_->FinishGradients();
    step_.SetInputs({.learning_rate = 0.01, .tokens = 2.0}, stream_);
    Tensor squares = step_.squares();
    strategy_->SumOfSquares(squares, stream_);
    step_.Decide(stream_);
    strategy_->optimizer().Step(step_.adam(), step_.average_decay(), stream_);
    strategy_->GatherWeights(update, stream_);
    AwaitWeights(*strategy_);
    StepState decided;
    step_.CopyTo(&decided, stream_);
    stream_.Synchronize();
    return decided;
  }

  // The averaged weights, which all ranks see meanwhile.
  std::vector<float> Averaged() {
    SwapAverage(*strategy_, kUpdates, stream_);
    std::vector<float> averaged = ElementsOf<float>(parameters_.weights());
    SwapAverage(*strategy_, kUpdates, stream_);
    return averaged;
  }

  ParameterSet& parameters() { return parameters_; }
  GradientStrategy& strategy() { return *strategy_; }
  Stream& stream() { return stream_; }

 private:
  Communicator& comm_;
  Stream stream_{kGpu};
  Timeline timeline_;
  ParameterSet parameters_;
  Scope scope_;
  DeviceStep step_;
  std::unique_ptr<GradientStrategy> strategy_;
};

Outcome Train(Communicator& comm, const Case& what, bool shards) {
  Model model(comm, what, shards);
  Outcome outcome;
  outcome.of_weights = static_cast<int64_t>(model.parameters().weights().bytes());
  for (int update = 0; update < kUpdates; ++update) {
    const int64_t before = BytesToHost();
    const StepState decided =
        model.Update(update, update == what.broken_update && comm.rank() + 1 == comm.size());
    outcome.to_host = std::max(outcome.to_host, BytesToHost() - before);
    outcome.norms.push_back(std::isfinite(decided.gradient_norm) ? decided.gradient_norm : -1.0);
    outcome.steps = decided.optimizer_steps;
  }
  outcome.collectives = Nccl().collectives;
  outcome.averaged = model.Averaged();
  outcome.weights = ElementsOf<float>(model.parameters().weights());
  outcome.moments = ElementsOf<float>(model.strategy().optimizer().first_moments());
  if (what.compute_type != DType::kFloat32) {
    Tensor wide = NewTensor(model.parameters().weights().shape(), DType::kFloat32, kGpu);
    Cast(model.parameters().compute_weights(), wide, model.stream());
    model.stream().Synchronize();
    outcome.compute_weights = ElementsOf<float>(wide);
  }
  return outcome;
}

struct Pair {
  std::vector<Outcome> whole, sharded;  // by rank
};

// Trains whole and sharded, and checks what holds for each such pair.
Pair TrainBoth(const std::vector<std::string>& hosts, const Case& what) {
  const auto train = [&](bool shards) {
    return RunRanksOn(hosts, [&](Communicator& comm) { return Train(comm, what, shards); },
                      {.nccl = what.nccl});
  };
  Pair pair = {train(false), train(true)};
  size_t moments = 0;
  for (const Outcome& rank : pair.sharded) {
    CHECK(rank.weights == pair.sharded[0].weights);
    CHECK(rank.compute_weights == pair.sharded[0].compute_weights);
    CHECK(rank.averaged == pair.sharded[0].averaged);
    CHECK(rank.norms == pair.sharded[0].norms);
    CHECK(rank.steps == pair.whole[0].steps);
    // About its share of the moments: what the ranks cannot divide is the last one's.
    const auto ranks = hosts.size();
    CHECK(rank.moments.size() <= pair.whole[0].moments.size() / ranks + 64 * ranks);
    moments += rank.moments.size();
  }
  CHECK(moments == pair.whole[0].moments.size());
  return pair;
}

// With the emulated NCCL, which adds in the same order with shards and without.
void CheckSameBits(const Pair& pair) {
  CHECK(pair.sharded[0].weights == pair.whole[0].weights);
  CHECK(pair.sharded[0].compute_weights == pair.whole[0].compute_weights);
  CHECK(pair.sharded[0].averaged == pair.whole[0].averaged);
}

TEST_CASE("a GPU's sharded optimizer gives the weights of a whole one, in every type") {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const size_t ranks : {1, 2, 3, 4}) {
      INFO(ranks << " ranks, " << Name(type));
      const Pair pair = TrainBoth(OneHost(static_cast<int>(ranks)),
                                  {.compute_type = type,
                                   .wire_type = type,
                                   .loss_scaler = {.on = type == DType::kFloat16, .initial = 8}});
      CheckSameBits(pair);
      CHECK(pair.sharded[0].steps == kUpdates);
      if (ranks > 1) CHECK(pair.sharded[0].collectives > 0);
    }
  }
}

TEST_CASE("an update whose gradients overflow on one GPU is skipped on all") {
  for (const DType type : {DType::kFloat32, DType::kFloat16}) {
    const Pair pair = TrainBoth(OneHost(4), {.compute_type = type,
                                             .wire_type = type,
                                             .loss_scaler = {.on = type == DType::kFloat16},
                                             .broken_update = 1});
    CheckSameBits(pair);
    CHECK(pair.sharded[0].steps == kUpdates - 1);
    CHECK(pair.sharded[0].norms[1] == -1.0);
  }
}

TEST_CASE("gradients are clipped by the norm of all GPUs' shards") {
  for (const int ranks : {2, 4}) {
    const Pair pair = TrainBoth(OneHost(ranks), {.clip_norm = 0.5});
    for (size_t i = 0; i < kUpdates; ++i) {
      CHECK(pair.whole[0].norms[i] > 0.5);
      CHECK(pair.sharded[0].norms[i] == Approx(pair.whole[0].norms[i]).epsilon(1e-12).margin(0));
    }
    CHECK(LargestDifference(pair.sharded[0].weights, pair.whole[0].weights) < 1e-7);
  }
}

TEST_CASE("on two hosts, where sums take other ways, weights differ by rounding alone") {
  const Pair pair = TrainBoth({"a", "a", "b", "b"}, {});
  CHECK(LargestDifference(pair.sharded[0].weights, pair.whole[0].weights) < 1e-6);
}

TEST_CASE("trust ratios come from the norms of all GPUs' parts") {
  for (const bool nccl : {true, false}) {
    const Pair pair = TrainBoth(
        OneHost(nccl ? 4 : 2),
        {.adam = {.epsilon = 1e-3f, .trust_ratio = AdamConfig::TrustRatio::kAll}, .nccl = nccl});
    CHECK(LargestDifference(pair.sharded[0].weights, pair.whole[0].weights) < 1e-6);
  }
}

TEST_CASE("an update of a sharded optimizer copies no gradients or weights to the host") {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    const Pair pair = TrainBoth(OneHost(2), {.compute_type = type, .wire_type = type});
    for (const Outcome& rank : pair.sharded) {
      CHECK(rank.of_weights > 15000);
      CHECK(rank.to_host <= 256);  // the device's decision
    }
  }
}

TEST_CASE("without NCCL gradients and weights of a sharded optimizer pass through the host") {
  const Pair pair = TrainBoth(OneHost(2), {.compute_type = DType::kBFloat16, .nccl = false});
  CheckSameBits(pair);
  for (const Outcome& rank : pair.sharded) {
    CHECK(rank.collectives == 0);
    CHECK(rank.to_host > rank.of_weights + rank.of_weights / 3);
  }
}

// A run of a small Transformer.
ToyRun SmallRun(const ToyCorpus& corpus, int ranks, int64_t steps) {
  ToyRun run = MakeToyRun(corpus);
  run.ranks = ranks;
  run.nccl = true;
  run.task.device = kGpu;
  run.task.model = {.encoder_layers = 1,
                    .decoder_layers = 1,
                    .hidden_size = 16,
                    .ffn_size = 16,
                    .num_heads = 2,
                    .dropout = 0.0f,
                    .max_positions = 64};
  run.task.batch.tokens_per_batch = 30;
  run.trainer.max_steps = steps;
  run.trainer.clip_norm = 0.0;
  run.trainer.shard_optimizer = true;
  return run;
}

std::string TensorsOf(const TemporaryFolder& folder, int64_t step) {
  const std::string path = folder.File("ckpt") + "/" + CheckpointName(step);
  return ReadTestFile(path + "/model.safetensors") + ReadTestFile(path + "/optimizer.safetensors");
}

TEST_CASE("GPUs' shards are cut anew where a run goes on with another number of ranks") {
  const ToyCorpus corpus(12, 1);
  const TemporaryFolder whole_folder, sharded_folder;
  int64_t steps = 0;
  for (const int ranks : {4, 1, 2}) {
    ++steps;
    ToyRun run = SmallRun(corpus, ranks, steps);
    run.trainer.best_metric = "nll";
    run.resume = "auto";
    run.trainer.checkpoint_dir = sharded_folder.File("ckpt");
    const std::vector<ToyResult> sharded = TrainToy(run);
    run.trainer.checkpoint_dir = whole_folder.File("ckpt");
    run.trainer.shard_optimizer = false;
    const std::vector<ToyResult> whole = TrainToy(run);
    INFO("after " << steps << " updates, the last on " << ranks << " ranks");
    for (const ToyResult& result : sharded) {
      CHECK(result.message == "");
      CHECK(result.state.step == steps);
      CHECK(result.weights == whole[0].weights);
    }
    CHECK(TensorsOf(sharded_folder, steps) == TensorsOf(whole_folder, steps));
  }
}

TEST_CASE("recorded passes of a sharded run copy no gradients or weights to the host either") {
  const ToyCorpus corpus(12, 1);
  ToyRun run = SmallRun(corpus, 2, 5);
  run.task.batch.tokens_per_batch = 100000;  // the whole corpus: the same shapes each time
  run.task.micro_batch_tokens = 100000;
  run.trainer.cuda_graphs = CudaGraphs::kOn;
  std::mutex mutex;
  int64_t most = 0;
  run.before_update = [&](int64_t step, ParameterSet&) {
    static thread_local int64_t before = 0;
    const std::scoped_lock lock(mutex);
    if (step > 0) most = std::max(most, BytesToHost() - before);
    before = BytesToHost();
  };
  for (const ToyResult& result : TrainToy(run)) {
    CHECK(result.message == "");
    CHECK(result.graphs_repeated > 0);
  }
  CHECK(most <= 1024);
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
      {.timeout_seconds = 4.0, .slow_seconds = 0.3});
  CHECK_THAT(errors[0], Catch::Contains("collective number") && Catch::Contains("rank 1 (host a)"));
}

}  // namespace
}  // namespace dtrain
