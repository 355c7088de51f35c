// resume_checkpoint_test.cc - a loop of one's own goes on: every rank has what the root restored.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/log.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/optimizer_shards.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/train/train_state.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

// What a loop has; the weights are those of a seed, the average of the weights is kept.
struct Loop {
  explicit Loop(uint64_t seed, DType type = DType::kFloat32) {
    Scope scope(parameters, "m");
    scope.Add("w", {3, 5}, Initializer::XavierUniform());
    scope.Add("b", {7}, Initializer::Constant(0.5f));
    parameters.Allocate({}, type, seed);
    adam.emplace(parameters, AdamConfig{.ema_decay = 0.9f});
  }
  void Update(float gradient) {
    Stream stream;
    for (Parameter* const parameter : parameters.in_backward_order()) {
      const Tensor part = parameter->gradient();
      for (int64_t i = 0; i < part.elements(); ++i) {
        part.data<float>()[i] = gradient * static_cast<float>(i + 1);
      }
    }
    adam->Step(0.1f, 1.0f, stream);
    state.step += 3;
    state.position = {.epoch = 2, .sample = state.step};
  }
  Status Save(const std::string& path) {
    DT_ASSIGN_OR_RETURN(CheckpointDirectory directory, CheckpointDirectory::Open(path));
    return directory.Save(state.step, MakeCheckpointFiles(state, parameters, *adam, {})).status();
  }
  std::vector<float> Numbers() {
    std::vector<float> all;
    for (const Tensor& tensor :
         {parameters.weights(), adam->first_moments(), adam->second_moments(), adam->average()}) {
      all.insert(all.end(), tensor.data<float>(), tensor.data<float>() + tensor.elements());
    }
    all.push_back(static_cast<float>(adam->steps()));
    all.push_back(static_cast<float>(state.step));
    all.push_back(static_cast<float>(state.position.epoch));
    all.push_back(static_cast<float>(state.position.sample));
    return all;
  }

  ParameterSet parameters;
  std::optional<Adam> adam;
  TrainState state;
};

// What ResumeCheckpoint() leaves on one rank whose weights began as its own.
struct Outcome {
  bool resumed = false;
  ExitCode exit_code = ExitCode::kDone;
  std::string message;
  std::vector<float> numbers;
};

std::vector<Outcome> ResumeOn(int ranks, const std::string& path) {
  return testing::RunRanks(ranks, [&](Communicator& comm) {
    Loop loop(/*seed=*/10 + static_cast<uint64_t>(comm.rank()));
    const StatusOr<bool> resumed =
        ResumeCheckpoint(path, loop.parameters, *loop.adam, loop.state, comm);
    return Outcome{.resumed = resumed.ok() && *resumed,
                   .exit_code = resumed.status().code(),
                   .message = std::string(resumed.status().message()),
                   .numbers = loop.Numbers()};
  });
}

TEST_CASE("all ranks go on with what the checkpoint holds") {
  const TemporaryFolder folder;
  Loop saved(/*seed=*/1);
  saved.Update(0.25f);
  REQUIRE(saved.Save(folder.File("ckpt")).ok());
  saved.Update(-0.5f);
  REQUIRE(saved.Save(folder.File("ckpt")).ok());
  for (const int ranks : {1, 2, 3}) {
    for (const Outcome& outcome : ResumeOn(ranks, folder.File("ckpt"))) {
      CHECK(outcome.resumed);
      CHECK(outcome.numbers == saved.Numbers());
    }
  }
}

TEST_CASE("without a checkpoint all ranks begin with the root's weights") {
  const TemporaryFolder folder;
  Loop root(/*seed=*/10);
  for (const Outcome& outcome : ResumeOn(2, folder.File("none"))) {
    CHECK_FALSE(outcome.resumed);
    CHECK(outcome.exit_code == ExitCode::kDone);
    CHECK(outcome.numbers == root.Numbers());
  }
}

TEST_CASE("without a checkpoint the averages of shards begin at the root's weights, too") {
  const TemporaryFolder folder;
  const auto averages = testing::RunRanks(2, [&](Communicator& comm) {
    Loop loop(/*seed=*/10 + static_cast<uint64_t>(comm.rank()));
    const GradientReducer reducer(loop.parameters, comm,
                                  {.scatter_block = OptimizerShards::BlockOn({})});
    OptimizerShards shards(loop.parameters, comm, reducer);
    loop.adam.emplace(loop.parameters, AdamConfig{.ema_decay = 0.9f}, shards.mine());
    const StatusOr<bool> resumed = ResumeCheckpoint(folder.File("none"), loop.parameters,
                                                    *loop.adam, loop.state, comm, &shards);
    std::vector<float> average;
    if (!resumed.ok() || *resumed) return average;
    const Tensor& all = loop.adam->average();
    average.assign(all.data<float>(), all.data<float>() + all.elements());
    return average;
  });
  Loop root(/*seed=*/10);
  const Tensor& weights = root.parameters.weights();
  // All of them are one block, the last rank's.
  CHECK(averages[0].empty());
  CHECK(averages[1] ==
        std::vector<float>(weights.data<float>(), weights.data<float>() + weights.elements()));
}

TEST_CASE("a damaged newest checkpoint is passed over and put aside") {
  SetLogSink([](LogLevel, std::string_view) {});
  const TemporaryFolder folder;
  Loop saved(/*seed=*/1);
  saved.Update(0.25f);
  REQUIRE(saved.Save(folder.File("ckpt")).ok());
  const std::vector<float> good = saved.Numbers();
  saved.Update(0.25f);
  REQUIRE(saved.Save(folder.File("ckpt")).ok());
  const std::string newest = folder.File("ckpt/" + CheckpointName(saved.state.step));
  WriteTestFile(newest + "/model.safetensors", "no tensors");
  for (const Outcome& outcome : ResumeOn(2, folder.File("ckpt"))) {
    CHECK(outcome.resumed);
    CHECK(outcome.numbers == good);
  }
  CHECK_FALSE(std::filesystem::exists(newest));

  const std::string last = folder.File("ckpt/" + CheckpointName(3));
  WriteTestFile(last + "/model.safetensors", "no tensors");
  const std::vector<Outcome> refused = ResumeOn(2, folder.File("ckpt"));
  for (const Outcome& outcome : refused) CHECK(outcome.exit_code == ExitCode::kStorage);
  CHECK_THAT(refused[1].message, Catch::Contains("the root rank could not load a checkpoint"));
  SetLogSink(nullptr);
}

}  // namespace
}  // namespace dtrain
