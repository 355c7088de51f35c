// custom_trainer_test.cc - your own training loop stops, resumes and changes its ranks.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "dtrain/formats/safetensors.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "integration/program.h"

namespace dtrain {
namespace {

constexpr double kTolerance = 1e-5;  // of weights, which are about 0.1

// A folder of checkpoints and the commands that train into it.
class ToyLoop {
 public:
  // arguments: the updates of the run, then "bf16" where it computes in bfloat16.
  std::string Command(int ranks, const std::string& arguments) const {
    return CommandOn(ranks, DTRAIN_TEST_PROGRAM " " + path() + " " + arguments);
  }
  Outcome Run(int ranks, const std::string& arguments) const {
    const Outcome outcome = RunCommand(Command(ranks, arguments));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return outcome;
  }
  std::string path() const { return folder_.File("ckpt"); }
  bool HasAny() const { return !ListCheckpoints(path()).empty(); }
  // By name: everything the last checkpoint consists of.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
      files[name] = ReadTestFile(path() + "/last/" + name);
      REQUIRE_FALSE(files[name].empty());
    }
    return files;
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("60 updates and 60 more are 120, bit for bit") {
  for (const std::string& more : {std::string(), std::string(" bf16")}) {
    for (const int ranks : {1, 2}) {
      INFO(ranks << " ranks" << more);
      const ToyLoop whole, parts;
      whole.Run(ranks, "120" + more);
      parts.Run(ranks, "60" + more);
      CHECK(parts.Files() != whole.Files());
      const Outcome resumed = parts.Run(ranks, "120" + more);
      CHECK_THAT(resumed.output, Catch::Contains("resuming after update 60\n"));
      CHECK(parts.Files() == whole.Files());
    }
  }
}

TEST_CASE("two ranks train what one does, and the best checkpoint is kept") {
  // The sums of gradients are added in another order; Adam makes of that what the weights may
  // differ by. Few updates: sooner or later an input of relu is so near 0 that it passes on one
  // side alone, and its unit goes another way.
  const ToyLoop one, two;
  one.Run(1, "20");
  two.Run(2, "20");
  const auto open = [](const ToyLoop& loop) {
    return *SafetensorsFile::Open(loop.path() + "/last/model.safetensors");
  };
  const SafetensorsFile a = open(one), b = open(two);
  REQUIRE(a.tensors().size() == b.tensors().size());
  double largest = 0.0;
  for (const NamedTensor& tensor : a.tensors()) {
    // Adds the same to all scores of a softmax: its gradient is rounding alone.
    if (tensor.name.ends_with("k_proj.bias")) continue;
    const NamedTensor* const other = b.Find(tensor.name);
    REQUIRE(other != nullptr);
    const auto* const x = reinterpret_cast<const float*>(tensor.data.data());
    const auto* const y = reinterpret_cast<const float*>(other->data.data());
    for (size_t i = 0; i < tensor.data.size() / sizeof(float); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(x[i]) - y[i]));
    }
  }
  CHECK(largest < kTolerance);

  const Outcome trained = two.Run(2, "60");
  INFO(trained.output);
  CHECK_THAT(trained.output, Catch::Contains("update 50: loss ") && Catch::Contains(", best\n"));
  CHECK(std::filesystem::read_symlink(two.path() + "/best-accuracy") == CheckpointName(50));
}

TEST_CASE("a rank that is asked to stop stops all with a checkpoint, and the command resumes") {
  const ToyLoop whole, stopped;
  whole.Run(2, "400");
  const std::string command = stopped.Command(2, "400");
  {
    Job job("exec " + command);
    REQUIRE(WaitUntil([&] { return stopped.HasAny(); }, 60));
    const std::vector<pid_t> ranks = job.Ranks();
    REQUIRE(ranks.size() == 2);
    REQUIRE(::kill(ranks[1], SIGTERM) == 0);
    const Outcome outcome = job.Wait();
    INFO(outcome.output);
    CHECK(outcome.exit_code == 75);
    CHECK_THAT(outcome.output, Catch::Contains("dtrain: stopped: "));
  }
  CHECK(ListCheckpoints(stopped.path()).back() < 400);
  const Outcome again = RunCommand(command);
  INFO(again.output);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.output, Catch::Contains("resuming after update "));
  CHECK(stopped.Files() == whole.Files());
}

}  // namespace
}  // namespace dtrain
