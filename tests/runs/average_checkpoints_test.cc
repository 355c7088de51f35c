// average_checkpoints_test.cc - means of checkpoints, and what has none.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/average_checkpoints.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "dtrain/base/log.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
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
    // Somebody's: not touched.
    fs::create_directories(folder.File("mean.partial"));
    WriteTestFile(folder.File("mean.partial/notes"), "mine");
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
    CHECK(ReadTestFile(folder.File("mean.partial/notes")) == "mine");
    CHECK_FALSE(fs::exists(folder.File("mean.partial-2")));
    CHECK_FALSE(fs::exists(folder.File("mean/optimizer.safetensors")));
    CHECK_FALSE(fs::exists(folder.File("mean/state.json")));
    CHECK(ReadTestFile(folder.File("mean/model.txt")) ==
          ReadTestFile(averaged->paths[1] + "/model.txt"));
  }
}

// Copies of a run's checkpoints whose text `name` is `text`.
std::vector<std::string> WithText(const std::vector<std::string>& checkpoints,
                                  const std::string& name, const std::string& text,
                                  const TemporaryFolder& folder) {
  std::vector<std::string> copies;
  for (const std::string& path : checkpoints) {
    const Checkpoint checkpoint = *Checkpoint::Open(path);
    std::vector<CheckpointFile> files;
    for (const std::string& file : checkpoint.FileNames()) {
      if (!file.ends_with(".safetensors") && file != name) {
        files.push_back({file, *checkpoint.ReadText(file)});
      }
    }
    TensorGroup tensors;
    const SafetensorsFile model = *checkpoint.OpenTensors("model.safetensors");
    tensors.tensors = {model.tensors().begin(), model.tensors().end()};
    files.push_back({"model.safetensors", std::move(tensors)});
    files.push_back({name, text});
    copies.push_back(folder.File(name + std::to_string(checkpoint.step())));
    fs::create_directories(copies.back());
    REQUIRE(WriteCheckpointFiles(copies.back(), checkpoint.step(), files).ok());
  }
  return copies;
}

TEST_CASE("models of the same shapes whose rows mean something else have no mean") {
  const ToyCorpus corpus;
  const TemporaryFolder folder;
  REQUIRE(TrainToy(ThreeCheckpoints(corpus, folder, 0.0f))[0].exit_code == ExitCode::kDone);
  const std::string two = folder.File("ckpt/step-00000002");
  const std::string four = folder.File("ckpt/step-00000004");
  std::string warnings;
  const LogSink previous = SetLogSink(
      [&](LogLevel /*level*/, std::string_view message) { warnings += std::string(message); });
  const std::string other = WithText({four}, "vocab.spm", "another", folder).front();
  const Status refused =
      AverageCheckpoints(std::vector{two, other}, 5, folder.File("mean")).status();
  CHECK(refused.code() == ExitCode::kStorage);
  CHECK(refused.message() ==
        two + " and " + other + " cannot be averaged: they have a different vocab.spm");
  CHECK(warnings.empty());
  // A classifier's file beside those there are: one that all have is compared, whatever its name.
  const std::vector<std::string> labelled =
      WithText({two, four}, "labels.txt", "no\nyes\n", folder);
  CHECK(AverageCheckpoints(labelled, 5, folder.File("alike")).ok());
  const std::string turned =
      WithText({folder.File("ckpt/step-00000006")}, "labels.txt", "yes\nno\n", folder).front();
  CHECK_THAT(std::string(AverageCheckpoints(std::vector{labelled[0], turned}, 5, folder.File("x"))
                             .status()
                             .message()),
             Catch::Contains("they have a different labels.txt"));
  CHECK(warnings.empty());
  const std::string further = WithText({four}, "training_data.txt", "pairs 1\n", folder).front();
  CHECK(AverageCheckpoints(std::vector{two, further}, 5, folder.File("warned")).ok());
  CHECK_THAT(warnings, Catch::Contains("were trained on different data"));
  SetLogSink(previous);
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
  const Status alone = refusal({one}, folder.File("mean"));
  CHECK(alone.code() == ExitCode::kUsage);
  CHECK_THAT(std::string(alone.message()), Catch::Contains("at least two checkpoints"));
  const Status unlike = refusal({one, other.File("ckpt/step-00000004")}, folder.File("mean"));
  CHECK(unlike.code() == ExitCode::kStorage);
  CHECK(refusal({folder.path()}, other.File("ckpt")).code() == ExitCode::kUsage);
  for (const std::string inside : {"ckpt/mean", "ckpt/step-00000004/mean"}) {
    const Status among = refusal({folder.path()}, other.File(inside));
    CHECK(among.code() == ExitCode::kUsage);
    CHECK_THAT(std::string(among.message()), Catch::Contains("is a checkpoint or a run"));
  }
  fs::resize_file(folder.File("ckpt/step-00000002/model.safetensors"), 100);
  CHECK(refusal({folder.path()}, folder.File("mean")).code() == ExitCode::kStorage);
  CHECK_FALSE(fs::exists(folder.File("mean")));
  CHECK_FALSE(fs::exists(folder.File("mean.partial")));
  // By its name and by a link to it.
  const Status twice =
      refusal({folder.File("ckpt/step-00000006"), folder.File("ckpt/last")}, folder.File("mean"));
  CHECK_THAT(std::string(twice.message()), Catch::Contains("given twice"));
}

}  // namespace
}  // namespace dtrain
