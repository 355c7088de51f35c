// slow_network_test.cc - training that sends less: factors of gradients, or weights now and then.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "dtrain/base/log.h"
#include "dtrain/distributed/internal/local_update_average.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

ToyRun PowerSgdRun(const ToyCorpus& corpus, int ranks, int64_t start_step = 2) {
  ToyRun run = MakeToyRun(corpus);
  run.ranks = ranks;
  run.trainer.max_steps = 9;
  run.trainer.reducer.power_sgd = {.rank = 2, .start_step = start_step, .seed = 3};
  return run;
}

ToyRun LocalRun(const ToyCorpus& corpus, int ranks, int64_t sync_every) {
  ToyRun run = MakeToyRun(corpus);
  run.ranks = ranks;
  run.trainer.max_steps = 10;
  run.trainer.adam.ema_decay = 0.5f;
  run.trainer.sync_every = sync_every;
  return run;
}

void CheckEqualRanks(const std::vector<ToyResult>& results) {
  for (const ToyResult& result : results) {
    CHECK(result.reason == "max_steps");
    CHECK(result.weights == results[0].weights);
    CHECK(result.first_moments == results[0].first_moments);
    CHECK(result.second_moments == results[0].second_moments);
    CHECK(result.average == results[0].average);
    CHECK(result.state.optimizer_steps == results[0].state.optimizer_steps);
  }
}

// Mean loss of the last ten updates of a longer run.
double LateLoss(ToyRun run) {
  run.trainer.max_steps = 80;
  run.trainer.learning_rate.base = 5e-3;
  const std::vector<ToyResult> results = TrainToy(run);
  CheckEqualRanks(results);
  const std::vector<double>& losses = results[0].losses;
  double sum = 0.0;
  for (size_t i = losses.size() - 10; i < losses.size(); ++i) sum += losses[i];
  return sum / 10.0;
}

TEST_CASE("what sends less learns about as fast as what sends all") {
  const ToyCorpus corpus;
  ToyRun plain = MakeToyRun(corpus);
  plain.ranks = 2;
  plain.trainer.max_steps = 1;
  const double first = TrainToy(plain)[0].losses[0];
  const double late = LateLoss(plain);
  REQUIRE(late < 0.85 * first);
  CHECK(LateLoss(PowerSgdRun(corpus, 2, 5)) < late + 0.1 * (first - late));
  CHECK(LateLoss(LocalRun(corpus, 2, 4)) < late + 0.1 * (first - late));
}

TEST_CASE("compressed gradients give the same weights on all ranks") {
  const ToyCorpus corpus;
  for (const int ranks : {1, 2, 3, 4}) {
    INFO(ranks << " ranks");
    CheckEqualRanks(TrainToy(PowerSgdRun(corpus, ranks)));
  }
  ToyRun hosts = PowerSgdRun(corpus, 4);
  hosts.hosts = {"a", "b", "a", "b"};
  CheckEqualRanks(TrainToy(hosts));
  ToyRun plain = PowerSgdRun(corpus, 2);
  plain.trainer.reducer.power_sgd = {};
  CHECK(TrainToy(plain)[0].weights != TrainToy(PowerSgdRun(corpus, 2))[0].weights);
}

// Mean length of the gradients of updates of less than half of `budget` tokens, and of the others.
std::pair<double, double> MeanLengths(const ToyRun& run, int64_t budget) {
  std::array<double, 2> sums{}, counts{};
  int64_t before = 0;
  const ToyResult result = TrainToy(run)[0];
  for (const StepRecord& record : result.records) {
    const int64_t tokens = record.target_tokens - std::exchange(before, record.target_tokens);
    const size_t kind = 2 * tokens < budget ? 0 : 1;
    sums[kind] += record.gradient_norm;
    counts[kind] += 1.0;
  }
  return {sums[0] / counts[0], sums[1] / counts[1]};
}

TEST_CASE("what an epoch's short last update sends is its own, not what others left behind") {
  constexpr int64_t kBudget = 290;  // of 48 pairs of 6 tokens and a half
  const ToyCorpus corpus(48);
  ToyRun plain = MakeToyRun(corpus);
  plain.ranks = 2;
  plain.task.batch.tokens_per_batch = kBudget;
  plain.trainer.max_steps = 20;
  ToyRun compressed = plain;
  compressed.trainer.reducer.power_sgd = {.rank = 2, .seed = 3};
  const auto [tails, others] = MeanLengths(plain, kBudget);
  const auto [compressed_tails, compressed_others] = MeanLengths(compressed, kBudget);
  REQUIRE(tails > 0.0);
  CHECK(compressed_tails < 1.3 * tails);
  CHECK(compressed_others < 1.3 * others);
}

TEST_CASE("a compressed run that stops and goes on is the run that never stopped") {
  const ToyCorpus corpus;
  struct Case {
    DType wire;
    std::vector<std::string> hosts;
  };
  for (const Case& c :
       {Case{DType::kFloat32, testing::OneHost(2)}, Case{DType::kBFloat16, testing::OneHost(2)},
        Case{DType::kBFloat16, {"a", "a", "b", "b"}}}) {
    INFO(c.hosts.size() << " ranks");
    const auto make = [&](const TemporaryFolder& folder) {
      ToyRun run = PowerSgdRun(corpus, 2);
      run.hosts = c.hosts;
      run.trainer.reducer.wire_type = c.wire;
      run.trainer.checkpoint_dir = folder.File("ckpt");
      run.resume = "auto";
      return run;
    };
    const TemporaryFolder whole_folder;
    const ToyResult whole = TrainToy(make(whole_folder))[0];
    for (const int64_t stop : {0, 4}) {
      INFO("stopped in update " << stop + 1);
      const TemporaryFolder folder;
      ToyRun run = make(folder);
      StopFlags flags;
      StopAt(run, stop, flags);
      CHECK(TrainToy(run)[0].exit_code == ExitCode::kStopped);
      const std::vector<ToyResult> results = TrainToy(make(folder));
      CHECK(results.size() == c.hosts.size());
      for (const ToyResult& resumed : results) {
        CHECK(resumed.exit_code == ExitCode::kDone);
        CHECK(resumed.weights == whole.weights);
        CHECK(resumed.second_moments == whole.second_moments);
      }
    }
  }
}

TEST_CASE(
    "a compressed run goes on with other numbers of ranks, and says what became of its memory") {
  const ToyCorpus corpus;
  for (const auto& [before, after] : {std::pair(2, 3), std::pair(3, 2), std::pair(2, 1)}) {
    INFO(before << " ranks, then " << after);
    const TemporaryFolder folder;
    ToyRun run = PowerSgdRun(corpus, before);
    run.trainer.checkpoint_dir = folder.File("ckpt");
    run.resume = "auto";
    ToyRun more = run;
    more.ranks = after;
    StopFlags flags;
    StopAt(run, 5, flags);
    CHECK(TrainToy(run)[0].exit_code == ExitCode::kStopped);
    const std::vector<ToyResult> results = TrainToy(more);
    CheckEqualRanks(results);
    CHECK(std::count_if(results[0].events.begin(), results[0].events.end(),
                        [](const auto& event) { return event.second == "resume"; }) == 2);
  }
}

TEST_CASE("a run that compresses from a later update on, or no more, says that the memory goes") {
  const ToyCorpus corpus;
  struct Case {
    int rank;
    int64_t start;
    const char* words;
  };
  for (const Case& c : {Case{2, 8, "this run compresses gradients from update 8 on"},
                        Case{0, 0, "this run does not compress gradients"},
                        Case{1000, 0, "no matrix shrinks at this rank"}}) {
    const TemporaryFolder folder;
    ToyRun run = PowerSgdRun(corpus, 2);
    run.trainer.checkpoint_dir = folder.File("ckpt");
    run.resume = "auto";
    StopFlags flags;
    StopAt(run, 4, flags);
    TrainToy(run);
    run.stop_flags = nullptr;
    run.trainer.reducer.power_sgd = {.rank = c.rank, .start_step = c.start, .seed = 3};
    const std::vector<ToyResult> results = TrainToy(run);
    CHECK(std::ranges::any_of(results[0].event_texts, [&](const std::string& text) {
      return absl::StrContains(text, c.words);
    }));
  }
}

TEST_CASE("what would spare the network only behind the end of the run is warned of") {
  const ToyCorpus corpus;
  const auto warnings_of = [](const ToyRun& run) {
    std::mutex mutex;
    std::string warnings;
    const LogSink previous = SetLogSink([&](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex);
      if (level >= LogLevel::kWarning) warnings += message;
    });
    CHECK(TrainToy(run)[0].exit_code == ExitCode::kDone);
    SetLogSink(previous);
    return warnings;
  };
  ToyRun compressed = PowerSgdRun(corpus, 2);
  compressed.trainer.max_steps = 3;
  compressed.trainer.reducer.power_sgd.start_step = 2;
  CHECK(warnings_of(compressed).empty());
  compressed.trainer.reducer.power_sgd.start_step = 3;
  CHECK(warnings_of(compressed) ==
        "trainer.power_sgd_start=3, but this run ends after 3 updates: all gradients travel whole; "
        "lower it");
  ToyRun rounds = LocalRun(corpus, 2, 2);
  rounds.trainer.sync_every_start = 10;
  CHECK(
      warnings_of(rounds) ==
      "trainer.sync_every_start=10, but this run ends after 10 updates: ranks never update alone; "
      "lower it");
}

TEST_CASE("ranks that update alone hold the same weights after each round and at the end") {
  const ToyCorpus corpus;
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    // The last round is cut short.
    CheckEqualRanks(TrainToy(LocalRun(corpus, ranks, 4)));
  }
  // Between the ends of rounds they do not.
  ToyRun run = LocalRun(corpus, 2, 5);
  std::mutex mutex;
  std::vector<std::vector<float>> after_one, after_five;
  run.before_update = [&](int64_t step, ParameterSet& parameters) {
    const std::lock_guard lock(mutex);
    if (step == 1) after_one.push_back(internal::CopyOf(parameters.weights()));
    if (step == 5) after_five.push_back(internal::CopyOf(parameters.weights()));
  };
  TrainToy(run);
  REQUIRE(after_one.size() == 2);
  CHECK(after_one[0] != after_one[1]);
  CHECK(after_five[0] == after_five[1]);
}

TEST_CASE("a round of one update is the run without rounds, and one rank has none") {
  const ToyCorpus corpus;
  const ToyResult plain = TrainToy(LocalRun(corpus, 1, 1))[0];
  CHECK(TrainToy(LocalRun(corpus, 1, 4))[0].weights == plain.weights);
}

TEST_CASE("losses are logged over all ranks' tokens within rounds too") {
  const ToyCorpus corpus;
  const ToyResult plain = TrainToy(LocalRun(corpus, 2, 1))[0];
  const ToyResult local = TrainToy(LocalRun(corpus, 2, 4))[0];
  CHECK(local.losses.at(0) == plain.losses.at(0));  // the same weights, the same tokens
  CHECK(local.tokens == plain.tokens);
  CHECK(local.losses.at(3) != plain.losses.at(3));
}

TEST_CASE("evaluations, checkpoints and stops wait for the end of a round; resuming is exact") {
  const ToyCorpus corpus;
  const auto make = [&](const TemporaryFolder& folder) {
    ToyRun run = LocalRun(corpus, 2, 4);
    run.trainer.eval_every = {PeriodUnit::kUpdates, 3};
    run.trainer.checkpoint_every = {PeriodUnit::kUpdates, 3};
    run.trainer.checkpoint_dir = folder.File("ckpt");
    run.trainer.keep_last = 10;
    run.resume = "auto";
    return run;
  };
  const TemporaryFolder whole_folder, folder;
  const std::vector<ToyResult> whole = TrainToy(make(whole_folder));
  CheckEqualRanks(whole);
  CHECK(ListCheckpoints(whole_folder.File("ckpt")) == std::vector<int64_t>{4, 8, 10});
  CHECK(whole[0].evaluations.size() == 3);
  ToyRun run = make(folder);
  StopFlags flags;
  StopAt(run, 1, flags);
  for (const ToyResult& stopped : TrainToy(run)) {
    CHECK(stopped.exit_code == ExitCode::kStopped);
    CHECK(stopped.state.step == 4);
  }
  for (const ToyResult& resumed : TrainToy(make(folder))) {
    CHECK(resumed.weights == whole[0].weights);
    CHECK(resumed.average == whole[0].average);
    CHECK(resumed.state.optimizer_steps == whole[0].state.optimizer_steps);
  }
}

TEST_CASE("rounds that begin later are a run of all ranks' gradients, then one of rounds") {
  const ToyCorpus corpus;
  const TemporaryFolder folder, whole_folder;
  ToyRun first = LocalRun(corpus, 2, 1);
  first.trainer.max_steps = 3;
  first.trainer.checkpoint_dir = folder.File("ckpt");
  first.resume = "auto";
  CheckEqualRanks(TrainToy(first));
  ToyRun then = LocalRun(corpus, 2, 4);
  then.trainer.max_steps = 13;
  then.trainer.checkpoint_every = {PeriodUnit::kUpdates, 2};
  then.trainer.keep_last = 10;
  then.resume = "auto";
  ToyRun whole = then;
  whole.trainer.sync_every_start = 3;
  whole.trainer.checkpoint_dir = whole_folder.File("ckpt");
  const std::vector<ToyResult> results = TrainToy(whole);
  CheckEqualRanks(results);
  CHECK(ListCheckpoints(whole_folder.File("ckpt")) == std::vector<int64_t>{2, 7, 11, 13});
  CHECK(std::ranges::count_if(results[0].event_texts, [](const std::string& text) {
          return absl::StrContains(text, "from here on ranks update alone");
        }) == 1);
  then.trainer.sync_every_start = 3;
  then.trainer.checkpoint_dir = folder.File("ckpt");
  CHECK(TrainToy(then)[0].weights == results[0].weights);
  CHECK(TrainToy(LocalRun(corpus, 2, 4))[0].weights != results[0].weights);
}

TEST_CASE("a rank without data in an update of a round keeps its weights and moments") {
  const ToyCorpus corpus(9);
  ToyRun run = LocalRun(corpus, 2, 8);
  run.task.batch.samples_per_batch = 4;  // an epoch is 4, 4 and 1 pair
  run.trainer.max_steps = 6;
  run.trainer.adam.weight_decay = 0.1f;
  // By rank and update.
  std::array<std::vector<std::vector<float>>, 2> weights;
  const auto results = testing::RunRanksOn(testing::OneHost(2), [&](Communicator& comm) {
    ToyRun mine = run;
    mine.before_update = [&](int64_t, ParameterSet& parameters) {
      weights[static_cast<size_t>(comm.rank())].push_back(internal::CopyOf(parameters.weights()));
    };
    return internal::TrainOnRank(mine, comm);
  });
  CheckEqualRanks(results);
  CHECK(results[0].state.skipped == 0);
  int idle = 0;
  for (size_t update = 0; update + 1 < 6; ++update) {
    const auto stays = [&](size_t rank) {
      return weights[rank].at(update) == weights[rank].at(update + 1);
    };
    CHECK_FALSE(stays(0));
    const bool is_tail = update % 3 == 2;
    CHECK(stays(1) == is_tail);
    idle += stays(1) ? 1 : 0;
  }
  CHECK(idle == 1);
}

TEST_CASE("a rank with bad gradients skips by itself and the mean is good again") {
  const ToyCorpus corpus;
  ToyRun run = LocalRun(corpus, 2, 4);
  run.trainer.adam.ema_decay = 0.0f;
  BreakOneRank(run);
  const std::vector<ToyResult> results = TrainToy(run);
  CheckEqualRanks(results);
  CHECK(results[0].state.skipped == 1);
  CHECK(results[1].state.skipped == 1);
  CHECK(std::isfinite(results[0].losses.back()));
}

TEST_CASE("the mean of a round counts ranks by their tokens") {
  // By rank: tokens of the round, and what every weight is before it.
  const auto mean = [](const std::vector<int64_t>& tokens) {
    const auto means = testing::RunRanks(static_cast<int>(tokens.size()), [&](Communicator& comm) {
      ParameterSet parameters;
      Scope(parameters, "model").Add("w", {4, 5}, Initializer::Constant(0.0f));
      parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
      Adam adam(parameters, {});
      internal::LocalUpdateAverage rounds(4, parameters, adam, comm);
      std::fill_n(parameters.weights().data<float>(), 20, static_cast<float>(comm.rank() + 1));
      std::fill_n(adam.second_moments().data<float>(), 20, static_cast<float>(comm.rank() + 5));
      rounds.Count(tokens[static_cast<size_t>(comm.rank())]);
      DT_CHECK(rounds.is_pending());
      rounds.Average();
      return std::pair(parameters.weights().data<float>()[7],
                       adam.second_moments().data<float>()[7]);
    });
    for (const auto& other : means) CHECK(other == means[0]);
    return means[0];
  };
  // Moves count by the root of their ranks' second moments.
  const auto [weight, moment] = mean({10, 30});
  CHECK(moment == Approx(0.25 * 5.0 + 0.75 * 6.0));
  CHECK(weight * std::sqrt(moment) ==
        Approx(0.25 * 1.0 * std::sqrt(5.0) + 0.75 * 2.0 * std::sqrt(6.0)));
  CHECK(mean({0, 30}).first == Approx(2.0));
  const auto [weight_of_three, moment_of_three] = mean({0, 0, 0});
  CHECK(moment_of_three == Approx(6.0));
  CHECK(weight_of_three * std::sqrt(6.0) * 3.0 ==
        Approx(1.0 * std::sqrt(5.0) + 2.0 * std::sqrt(6.0) + 3.0 * std::sqrt(7.0)));
}

TEST_CASE("what one rank alone learns in a round moves weights as the mean gradient does") {
  constexpr int64_t kUpdates = 4;
  constexpr int64_t kElements = 100 * kUpdates;
  // A gradient of `size` for each element, in one update of the round.
  const auto train = [&](float size, Adam& adam, Parameter& weights, const auto& after) {
    Stream stream;
    for (int64_t update = 0; update < kUpdates; ++update) {
      float* const gradient = weights.gradient().data<float>();
      for (int64_t i = 0; i < kElements; ++i) gradient[i] = i % kUpdates == update ? size : 0.0f;
      adam.Step(/*learning_rate=*/0.01f, /*gradient_scale=*/1.0f, stream);
      after();
    }
  };
  const auto results = testing::RunRanks(3, [&](Communicator& comm) {
    ParameterSet parameters;
    Parameter& weights =
        Scope(parameters, "model").Add("w", {kElements}, Initializer::Constant(0.5f));
    parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
    Adam adam(parameters, {});
    internal::LocalUpdateAverage rounds(kUpdates, parameters, adam, comm);
    train(comm.rank() == 0 ? 1.0f : 0.0f, adam, weights, [&] { rounds.Count(10); });
    rounds.Average();
    return internal::CopyOf(parameters.weights());
  });
  ParameterSet parameters;
  Parameter& weights =
      Scope(parameters, "model").Add("w", {kElements}, Initializer::Constant(0.5f));
  parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
  Adam adam(parameters, {});
  train(1.0f / 3.0f, adam, weights, [] {});
  const std::vector<float> plain = internal::CopyOf(parameters.weights());
  for (size_t i = 0; i < static_cast<size_t>(kElements); ++i) {
    INFO("element " << i);
    CHECK(results[0][i] == results[1][i]);
    CHECK(results[0][i] - 0.5f == Approx(plain[i] - 0.5f).epsilon(0.02));
  }
}

// Second moments that rounds of Adam leave, free of its bias, as means over the elements of two
// parameters: one whose gradients are noise of variance 1, one whose are 1 on all ranks. `updates`
// and `tokens` of each rank, in a round.
std::pair<double, double> MomentsAfterRounds(const std::vector<int64_t>& updates,
                                             const std::vector<int64_t>& tokens) {
  constexpr int64_t kElements = 5000;
  constexpr int kRounds = 30;
  const auto means = testing::RunRanks(static_cast<int>(tokens.size()), [&](Communicator& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    ParameterSet parameters;
    Scope scope(parameters, "model");
    Parameter& noisy = scope.Add("noisy", {kElements}, Initializer::Constant(0.0f));
    Parameter& steady = scope.Add("steady", {kElements}, Initializer::Constant(0.0f));
    parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
    Adam adam(parameters, {});
    internal::LocalUpdateAverage rounds(*std::ranges::max_element(updates), parameters, adam, comm);
    std::mt19937 random(static_cast<uint32_t>(comm.rank()));
    std::normal_distribution<float> noise;
    std::fill_n(steady.gradient().data<float>(), kElements, 1.0f);
    Stream stream;
    for (int round = 0; round < kRounds; ++round) {
      for (int64_t update = 0; update < updates[rank]; ++update) {
        std::generate_n(noisy.gradient().data<float>(), kElements, [&] { return noise(random); });
        adam.Step(/*learning_rate=*/0.0f, /*gradient_scale=*/1.0f, stream);
        rounds.Count(tokens[rank] / updates[rank]);
      }
      rounds.Average();
    }
    const double seen = 1.0 - std::pow(0.98, static_cast<double>(kRounds * updates[0]));
    const auto mean = [&](const Parameter& parameter) {
      const float* const v = adam.second_moments().data<float>() + parameter.offset();
      return std::accumulate(v, v + kElements, 0.0) / kElements / seen;
    };
    return std::pair(mean(noisy), mean(steady));
  });
  for (const auto& other : means) CHECK(other == means[0]);
  return means[0];
}

TEST_CASE("second moments of rounds are those of the mean gradient of all ranks") {
  // The mean's variance is that of one rank's gradients times the sum of the squared shares.
  const auto [noise_of_two, steady_of_two] = MomentsAfterRounds({4, 4}, {40, 40});
  CHECK(noise_of_two == Approx(1.0 / 2).epsilon(0.02));
  CHECK(steady_of_two == Approx(1.0).epsilon(1e-4));
  CHECK(MomentsAfterRounds({1, 1, 1}, {10, 10, 10}).first == Approx(1.0 / 3).epsilon(0.02));
  CHECK(MomentsAfterRounds({20, 20, 20, 20}, {60, 60, 60, 60}).first ==
        Approx(1.0 / 4).epsilon(0.02));
  CHECK(MomentsAfterRounds({4, 4}, {40, 120}).first == Approx(10.0 / 16).epsilon(0.02));
  CHECK(MomentsAfterRounds({4}, {40}).first == Approx(1.0).epsilon(0.02));
}

TEST_CASE("a rank that skips all updates of a round has no part in its mean") {
  const ToyCorpus corpus;
  ToyRun run = LocalRun(corpus, 2, 2);
  run.trainer.max_steps = 2;
  run.trainer.adam.ema_decay = 0.0f;
  // Finite, and too large for finite gradients.
  constexpr float kHuge = 3e38f;
  std::mutex mutex;
  bool is_broken = false;
  run.before_update = [&](int64_t, ParameterSet& parameters) {
    const std::lock_guard lock(mutex);
    if (std::exchange(is_broken, true)) return;
    *parameters.weights().data<float>() = kHuge;
  };
  const std::vector<ToyResult> results = TrainToy(run);
  CHECK(results[0].state.skipped == 2);
  CHECK(results[0].weights == results[1].weights);
  CHECK(std::ranges::all_of(results[0].weights, [](float w) { return std::abs(w) < 1e3f; }));
}

}  // namespace
}  // namespace dtrain
