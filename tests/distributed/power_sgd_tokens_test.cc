// power_sgd_tokens_test.cc - what PowerSGD remembers is per token: updates of any size are alike.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/random.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"
#include "dtrain/runs/checkpoint.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanksOn;

constexpr int64_t kRows = 40, kColumns = 56, kBias = 5;
constexpr int64_t kAll = kBias + kRows * kColumns;

std::vector<float> Noise(uint64_t seed) {
  RandomStream random({.seed = seed});
  std::vector<float> values(kAll);
  for (float& value : values) value = random.NextUniform() - 0.5f;
  return values;
}

// Of one vector and one matrix that is compressed.
class Reducer {
 public:
  Reducer(std::vector<float>& flat, Communicator& comm)
      : reducer_(Tensor::View(flat.data(), {kAll}),
                 {{"bias", 0, kBias}, {"weight", kBias, kAll, kRows, kColumns}}, comm,
                 {.power_sgd = {.rank = 2, .seed = 5}}) {}

  void SetTokens(double tokens) { reducer_.SetGradientTokens(tokens); }
  void Step() {
    reducer_.MarkReady(0);
    reducer_.MarkReady(1);
    reducer_.Finish();
  }
  internal::PowerSgdMemory& memory() { return *internal::PowerSgdMemoryOf(reducer_); }

 private:
  GradientReducer reducer_;
};

struct Result {
  std::vector<std::vector<float>> sums;  // of each update
  std::vector<float> errors;             // at the end
};

// Updates of so many tokens of all ranks. A rank's gradients are noise times their number.
Result Run(Communicator& comm, const std::vector<double>& tokens, bool tells_tokens = true) {
  std::vector<float> flat(kAll);
  Reducer reducer(flat, comm);
  Result result;
  for (size_t step = 0; step < tokens.size(); ++step) {
    const std::vector<float> mean = Noise(10 * step + static_cast<uint64_t>(comm.rank()));
    const auto count = static_cast<float>(tokens[step]);
    std::ranges::transform(mean, flat.begin(), [count](float x) { return x * count; });
    if (tells_tokens) reducer.SetTokens(tokens[step]);
    reducer.Step();
    result.sums.push_back(flat);
  }
  result.errors = reducer.memory().errors;
  return result;
}

// Largest difference of a / a_tokens from b / b_tokens.
double Distance(const std::vector<float>& a, double a_tokens, const std::vector<float>& b,
                double b_tokens) {
  double worst = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(double{a[i]} / a_tokens - double{b[i]} / b_tokens));
  }
  return worst;
}

double Length(const std::vector<float>& values, double tokens) {
  double squares = 0.0;
  for (const float x : values) squares += double{x} * double{x};
  return std::sqrt(squares) / tokens;
}

const std::vector<std::vector<std::string>> kJobs = {testing::OneHost(2), {"a", "a", "b", "b"}};

TEST_CASE("an update's mean does not depend on how many tokens the updates have") {
  const std::vector<double> even = {1000.0, 1000.0, 1000.0, 1000.0};
  const std::vector<double> uneven = {6000.0, 200.0, 6000.0, 7.0};
  for (const std::vector<std::string>& hosts : kJobs) {
    INFO(hosts.size() << " ranks");
    const auto run = [&](const std::vector<double>& tokens) {
      auto ranks = RunRanksOn(hosts, [&](Communicator& comm) { return Run(comm, tokens); });
      // Where the ranks of a host share the matrices out, one of them has this one.
      return ranks[0].errors.empty() ? ranks[1] : ranks[0];
    };
    const Result expected = run(even);
    const Result actual = run(uneven);
    for (size_t i = 0; i < even.size(); ++i) {
      CHECK(Distance(actual.sums[i], uneven[i], expected.sums[i], even[i]) < 1e-5);
    }
    REQUIRE(expected.errors.size() == kRows * kColumns);
    CHECK(Distance(actual.errors, 1.0, expected.errors, 1.0) < 1e-5);
    CHECK(*std::ranges::max_element(expected.errors) > 0.1f);
  }
}

TEST_CASE("what a small update sends is not drowned by what a large one left behind") {
  const auto run = [](bool tells_tokens) {
    return RunRanksOn(testing::OneHost(2), [tells_tokens](Communicator& comm) {
      return Run(comm, {6000.0, 200.0}, tells_tokens);
    })[0];
  };
  const double plain = std::sqrt(2.0) * Length(Noise(10), 1.0);  // the noise of two ranks
  CHECK(Length(run(true).sums[1], 200.0) < 1.5 * plain);
  // It is where nobody tells how many tokens there are: that will do for equal updates alone.
  CHECK(Length(run(false).sums[1], 200.0) > 5.0 * plain);
}

TEST_CASE("twice the gradients of twice the tokens are the same update, to the last bit") {
  const auto run = [](double times) {
    return RunRanksOn(testing::OneHost(2), [times](Communicator& comm) {
      return Run(comm, {6000.0, 200.0 * times, 300.0});
    })[0];
  };
  const Result once = run(1.0);
  const Result twice = run(2.0);
  CHECK(Distance(twice.sums[1], 2.0, once.sums[1], 1.0) == 0.0);
  CHECK(twice.sums[2] == once.sums[2]);
  CHECK(twice.errors == once.errors);
}

TEST_CASE("the errors of a checkpoint that does not say how many tokens they sum are dropped") {
  for (const bool is_old : {false, true}) {
    const TemporaryFolder folder;
    const std::string path = folder.File("checkpoint");
    std::filesystem::create_directories(path);
    const auto memories = RunRanksOn(testing::OneHost(2), [&](Communicator& comm) {
      std::vector<float> flat = Noise(static_cast<uint64_t>(comm.rank()));
      Reducer before(flat, comm);
      before.Step();
      std::vector<CheckpointFile> files;
      files.push_back(internal::GatherMemory(before.memory(), comm));
      if (is_old) std::get<TensorGroup>(files[0].content).metadata.erase("unit");
      DT_CHECK(!comm.is_root() || WriteCheckpointFiles(path, /*step=*/1, files).ok());
      comm.Barrier();
      Reducer after(flat, comm);
      const auto note = internal::RestoreMemory(path, comm, after.memory());
      DT_CHECK(note.ok()) << note.status().message();
      DT_CHECK(after.memory().factors == before.memory().factors);
      return std::pair(*note, after.memory().errors);
    });
    const auto& [note, errors] = memories[0];
    CHECK((note.find("remembered sums of losses") != std::string::npos) == is_old);
    REQUIRE(errors.size() == kRows * kColumns);
    CHECK(std::ranges::all_of(errors, [](float x) { return x == 0.0f; }) == is_old);
  }
}

}  // namespace
}  // namespace dtrain
