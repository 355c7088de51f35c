// average_checkpoints_test.cc - means of checkpoints, and what has none.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/files/average_checkpoints.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "dtrain/files/checkpoint_directory.h"
#include "testing/file_testing.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// A run with checkpoints of updates 2, 4 and 6.
ToyRun ThreeCheckpoints(const ToyCorpus& corpus, const TemporaryFolder& folder, float ema_decay) {
  ToyRun run = MakeToyRun(corpus);
  run.trainer.max_steps = 6;
  run.trainer.adam.ema_decay = ema_decay;
  run.trainer.checkpoint_every = {PeriodUnit::kUpdates, 2};
  run.trainer.checkpoint_dir = folder.File("ckpt");
  run.trainer.keep_last = 3;
  return run;
}

std::vector<float> Values(const SafetensorsFile& file, const std::string& name) {
  const NamedTensor* const tensor = file.Find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values(tensor->data.size() / sizeof(float));
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

SafetensorsFile Tensors(const std::string& checkpoint, const std::string& name) {
  auto file = Checkpoint::Open(checkpoint)->OpenTensors(name);
  REQUIRE(file.ok());
  return *std::move(file);
}

TEST_CASE("the mean is that of the weights that evaluations take") {
  const ToyCorpus corpus;
  for (const float ema_decay : {0.0f, 0.9f}) {
    INFO("moving average " << ema_decay);
    const TemporaryFolder folder;
    REQUIRE(TrainToy(ThreeCheckpoints(corpus, folder, ema_decay))[0].exit_code == ExitCode::kDone);
    const auto averaged =
        AverageCheckpoints(std::vector<std::string>{folder.path()}, 2, folder.File("mean") + "/");
    REQUIRE(averaged.ok());
    CHECK(averaged->step == 6);
    REQUIRE(averaged->paths.size() == 2);
    const SafetensorsFile mean = Tensors(folder.File("mean"), "model.safetensors");
    const std::string file = ema_decay > 0.0f ? "optimizer.safetensors" : "model.safetensors";
    const std::string prefix = ema_decay > 0.0f ? "average." : "";
    for (const NamedTensor& tensor : mean.tensors()) {
      const std::vector<float> actual = Values(mean, tensor.name);
      const std::vector<float> first =
          Values(Tensors(averaged->paths[0], file), prefix + tensor.name);
      const std::vector<float> last =
          Values(Tensors(averaged->paths[1], file), prefix + tensor.name);
      CHECK(first != last);
      for (size_t i = 0; i < actual.size(); ++i) {
        if (actual[i] != static_cast<float>((double{first[i]} + double{last[i]}) / 2.0)) {
          FAIL_CHECK(tensor.name << " [" << i << "]");
          break;
        }
      }
    }
    CHECK_FALSE(fs::exists(folder.File("mean/optimizer.safetensors")));
    CHECK_FALSE(fs::exists(folder.File("mean/state.json")));
    CHECK(ReadTestFile(folder.File("mean/model.txt")) ==
          ReadTestFile(averaged->paths[1] + "/model.txt"));
  }
}

TEST_CASE("what has no mean is refused, and nothing is left of it") {
  const ToyCorpus corpus;
  const TemporaryFolder folder, other;
  REQUIRE(TrainToy(ThreeCheckpoints(corpus, folder, 0.0f))[0].exit_code == ExitCode::kDone);
  ToyRun wider = ThreeCheckpoints(corpus, other, 0.0f);
  wider.task.model.ffn_size *= 2;
  REQUIRE(TrainToy(wider)[0].exit_code == ExitCode::kDone);
  const auto refusal = [&](const std::vector<std::string>& paths, const std::string& output) {
    return AverageCheckpoints(paths, 5, output).status();
  };
  const std::string one = folder.File("ckpt/step-00000004");
  const absl::Status alone = refusal({one}, folder.File("mean"));
  CHECK(ExitCodeOf(alone) == ExitCode::kUsage);
  CHECK_THAT(std::string(MessageOf(alone)), Catch::Contains("at least two checkpoints"));
  const absl::Status unlike = refusal({one, other.File("ckpt/step-00000004")}, folder.File("mean"));
  CHECK(ExitCodeOf(unlike) == ExitCode::kStorage);
  CHECK(ExitCodeOf(refusal({folder.path()}, other.File("ckpt"))) == ExitCode::kUsage);
  for (const std::string inside : {"ckpt/mean", "ckpt/step-00000004/mean"}) {
    const absl::Status among = refusal({folder.path()}, other.File(inside));
    CHECK(ExitCodeOf(among) == ExitCode::kUsage);
    CHECK_THAT(std::string(MessageOf(among)), Catch::Contains("is a checkpoint or a run"));
  }
  fs::resize_file(folder.File("ckpt/step-00000002/model.safetensors"), 100);
  CHECK(ExitCodeOf(refusal({folder.path()}, folder.File("mean"))) == ExitCode::kStorage);
  CHECK_FALSE(fs::exists(folder.File("mean")));
  CHECK_FALSE(fs::exists(folder.File("mean.partial")));
  // By its name and by a link to it.
  const absl::Status twice =
      refusal({folder.File("ckpt/step-00000006"), folder.File("ckpt/last")}, folder.File("mean"));
  CHECK_THAT(std::string(MessageOf(twice)), Catch::Contains("named twice"));
}

}  // namespace
}  // namespace dtrain
