// power_sgd_test.cc - sums of factors: what is exact, what is remembered, what a checkpoint keeps.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/comm/heartbeat.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using internal::PowerSgdMemory;
using testing::RunRanks;
using testing::RunRanksOn;

constexpr int64_t kRows = 40, kColumns = 56, kBias = 13, kSmall = 6;
constexpr int64_t kSecondRows = 70, kSecondColumns = 24;
constexpr int64_t kFirst = kRows * kColumns;
constexpr int64_t kSecond = kSecondRows * kSecondColumns;
constexpr int64_t kAll = kBias + kFirst + 3 + kSmall + kSecond;

// Matrices beside a vector and a matrix too small to gain, three elements of padding after one.
std::vector<GradientRange> Parameters() {
  const int64_t second = kBias + kFirst + 3;
  return {{"bias", 0, kBias},
          {"first", kBias, second, kRows, kColumns},
          {"small", second, second + kSmall, 2, 3},
          {"second", second + kSmall, kAll, kSecondRows, kSecondColumns}};
}

GradientReducerOptions Options(int rank, DType wire_type = DType::kFloat32) {
  return {.bucket_bytes = 4000,
          .first_bucket_bytes = 100,
          .wire_type = wire_type,
          .power_sgd = {.rank = rank, .seed = 5}};
}

// Of a rank's gradients in a step.
uint64_t SeedOf(int step, int rank) {
  return 100 * static_cast<uint64_t>(step) + static_cast<uint64_t>(rank);
}

std::vector<float> Noise(int64_t count, uint64_t seed) {
  RandomStream random({.seed = seed});
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.NextUniform() - 0.5f;
  return values;
}

// Gradients whose matrices have rank `rank`, different on each rank of the job unless the factors
// on the left are shared.
std::vector<float> LowRankGradients(int rank, uint64_t seed) {
  std::vector<float> flat = Noise(kAll, seed);
  for (const GradientRange& range : Parameters()) {
    if (range.rows < 10) continue;
    const std::vector<float> left = Noise(range.rows * rank, 77);
    const std::vector<float> right = Noise(range.columns * rank, seed + 1);
    for (int64_t i = 0; i < range.rows; ++i) {
      for (int64_t j = 0; j < range.columns; ++j) {
        float sum = 0.0f;
        for (int k = 0; k < rank; ++k) {
          sum += left[static_cast<size_t>(i * rank + k)] * right[static_cast<size_t>(j * rank + k)];
        }
        flat[static_cast<size_t>(range.begin + i * range.columns + j)] = sum;
      }
    }
    std::fill_n(flat.begin() + range.begin + range.rows * range.columns,
                range.end - range.begin - range.rows * range.columns, 0.0f);
  }
  return flat;
}

const std::vector<std::string> kTwoHosts = {"a", "a", "b", "b"};

void Step(GradientReducer& reducer) {
  for (int i = 0; i < 4; ++i) {
    reducer.MarkReady(i);
    reducer.Poll();
  }
  reducer.Finish();
}

double LargestDifference(const std::vector<float>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0.0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (std::isnan(a[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(double{a[i]} - b[i]));
  }
  return worst;
}

Tensor View(std::vector<float>& flat) {
  return Tensor::View(flat.data(), {static_cast<int64_t>(flat.size())});
}

TEST_CASE("a sum of matrices of rank k is exact with factors of rank k, and so is the rest") {
  for (const int size : {1, 2, 3, 4}) {
    INFO(size << " ranks");
    const auto results = RunRanks(size, [](Communicator& comm) {
      const auto seed = static_cast<uint64_t>(comm.rank());
      std::vector<float> flat = LowRankGradients(2, 10 * seed);
      GradientReducer reducer(View(flat), Parameters(), comm, Options(3));
      Step(reducer);
      return flat;
    });
    std::vector<double> expected(kAll);
    for (int r = 0; r < size; ++r) {
      const std::vector<float> part = LowRankGradients(2, 10 * static_cast<uint64_t>(r));
      for (size_t i = 0; i < part.size(); ++i) expected[i] += double{part[i]};
    }
    for (const auto& flat : results) {
      CHECK(LargestDifference(flat, expected) < 2e-6);
      CHECK(flat == results[0]);
    }
  }
}

TEST_CASE("so it is where the ranks of a host add first and share the matrices out") {
  for (const std::vector<std::string>& hosts :
       {kTwoHosts, {"a", "b", "b", "a"}, {"a", "b", "a", "b", "a", "b"}}) {
    INFO(hosts.size() << " ranks, the second on " << hosts[1]);
    const auto results = RunRanksOn(hosts, [](Communicator& comm) {
      std::vector<float> flat = LowRankGradients(2, 10 * static_cast<uint64_t>(comm.rank()));
      GradientReducer reducer(View(flat), Parameters(), comm, Options(3));
      Step(reducer);
      return flat;
    });
    std::vector<double> expected(kAll);
    for (size_t r = 0; r < hosts.size(); ++r) {
      const std::vector<float> part = LowRankGradients(2, 10 * r);
      for (size_t i = 0; i < part.size(); ++i) expected[i] += double{part[i]};
    }
    for (const auto& flat : results) {
      CHECK(LargestDifference(flat, expected) < 3e-6);
      CHECK(flat == results[0]);
    }
  }
}

// What all steps together have given and still owe, against the sum of all gradients.
struct Ledger {
  std::vector<float> last = {};    // sums of the last step
  std::vector<double> given = {};  // added up over steps
  std::vector<float> errors = {};  // of this rank
  std::vector<double> owed = {};   // of this rank, where the gradients are; empty: nothing
};

// The errors of the rank's own matrices, at their places in the flat gradients.
std::vector<double> OwedBy(const PowerSgdMemory& memory, int rank) {
  std::vector<double> owed(kAll);
  for (const internal::CompressedMatrix& matrix : memory.matrices) {
    if (matrix.place != memory.grid.place[static_cast<size_t>(rank)]) continue;
    std::copy_n(memory.errors.begin() + matrix.error_begin, matrix.size.elements(),
                owed.begin() + matrix.begin);
  }
  return owed;
}

Ledger Run(Communicator& comm, const GradientReducerOptions& options, int steps) {
  std::vector<float> flat(kAll);
  GradientReducer reducer(View(flat), Parameters(), comm, options);
  Ledger ledger{.given = std::vector<double>(kAll)};
  for (int step = 0; step < steps; ++step) {
    std::ranges::copy(Noise(kAll, SeedOf(step, comm.rank())), flat.begin());
    Step(reducer);
    for (size_t i = 0; i < flat.size(); ++i) ledger.given[i] += double{flat[i]};
  }
  ledger.last = flat;
  if (const PowerSgdMemory* const memory = internal::PowerSgdMemoryOf(reducer)) {
    ledger.errors = memory->errors;
    ledger.owed = OwedBy(*memory, comm.rank());
  }
  return ledger;
}

// Largest difference between all gradients and what was given and is still owed.
double Lost(const std::vector<Ledger>& ledgers, int steps) {
  std::vector<double> total(kAll);
  for (size_t r = 0; r < ledgers.size(); ++r) {
    for (int step = 0; step < steps; ++step) {
      const std::vector<float> part = Noise(kAll, SeedOf(step, static_cast<int>(r)));
      for (size_t i = 0; i < part.size(); ++i) total[i] += double{part[i]};
    }
    for (size_t i = 0; i < ledgers[r].owed.size(); ++i) total[i] -= ledgers[r].owed[i];
  }
  double worst = 0.0;
  for (size_t i = 0; i < total.size(); ++i) {
    worst = std::max(worst, std::abs(total[i] - ledgers[0].given[i]));
  }
  return worst;
}

TEST_CASE("no gradient is lost: what the sums lack is in the errors of the ranks") {
  constexpr int kSteps = 6;
  for (const int size : {2, 3, 4}) {
    INFO(size << " ranks");
    const auto ledgers =
        RunRanks(size, [](Communicator& comm) { return Run(comm, Options(2), kSteps); });
    CHECK(Lost(ledgers, kSteps) < 1e-5);
    for (const Ledger& ledger : ledgers) {
      CHECK(ledger.last == ledgers[0].last);
      CHECK(std::any_of(ledger.errors.begin(), ledger.errors.end(),
                        [](float error) { return std::abs(error) > 0.1f; }));
    }
  }
}

TEST_CASE("hosts with unlike numbers of ranks sum alike, from any step on") {
  const auto run = [](const std::vector<std::string>& hosts, int start) {
    return RunRanksOn(hosts, [&](Communicator& comm) {
      GradientReducerOptions options = Options(2);
      options.power_sgd.start_step = start;
      return Run(comm, options, 5);
    });
  };
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "b"}, {"a", "a", "b"}, {"a", "b", "b", "b"}}) {
    for (const int start : {0, 2}) {
      INFO(hosts.size() << " ranks, from step " << start << " on");
      const auto ledgers = run(hosts, start);
      for (const Ledger& ledger : ledgers) CHECK(ledger.last == ledgers[0].last);
      CHECK(Lost(ledgers, 5) < 1e-5);
      CHECK(run(hosts, start)[0].last == ledgers[0].last);
    }
  }
}

TEST_CASE("the ranks of a host hold one memory between them, each the part of its matrices") {
  // Three ranks of a host have two matrices: one has none.
  for (const std::vector<std::string>& hosts :
       {kTwoHosts, {"a", "b", "b", "a"}, {"a", "a", "a", "b", "b", "b"}}) {
    INFO(hosts.size() << " ranks, the second on " << hosts[1]);
    const auto ledgers =
        RunRanksOn(hosts, [](Communicator& comm) { return Run(comm, Options(2), 5); });
    size_t elements = 0;
    for (const Ledger& ledger : ledgers) {
      CHECK(ledger.last == ledgers[0].last);
      CHECK(ledger.errors.size() < kFirst + kSecond);
      elements += ledger.errors.size();
    }
    CHECK(elements == 2 * (kFirst + kSecond));
    CHECK(Lost(ledgers, 5) < 1e-5);
  }
  // Asked for flat sums, every rank is a worker by itself.
  const auto flat =
      RunRanksOn(kTwoHosts, [](Communicator& comm) { return Run(comm, Options(2), 5); },
                 {.algorithm = AllReduceAlgorithm::kFlat});
  CHECK(flat[0].errors.size() == kFirst + kSecond);
  CHECK(Lost(flat, 5) < 1e-5);
}

TEST_CASE("buckets are cut beside matrices, so that each rank of a host computes as much") {
  internal::ShareCutter cutter(2);
  // A bucket of one matrix goes to one of the two, the next one to the other.
  CHECK(cutter.Cut(std::vector<internal::SharePiece>{{0, 0}, {0, 100, true}, {100, 100}}) ==
        std::vector<int64_t>{0, 100, 100});
  CHECK(cutter.Cut(std::vector<internal::SharePiece>{{100, 200, true}}) ==
        std::vector<int64_t>{100, 100, 200});
  CHECK(cutter.Cut(
            std::vector<internal::SharePiece>{{200, 201}, {201, 250, true}, {250, 300, true}}) ==
        std::vector<int64_t>{200, 250, 300});
  // What travels whole is cut anywhere, here so that it makes up for the element above.
  CHECK(cutter.Cut(std::vector<internal::SharePiece>{{300, 1300}}) ==
        std::vector<int64_t>{300, 805, 1300});
  internal::ShareCutter alone(1);
  CHECK(alone.Cut(std::vector<internal::SharePiece>{{5, 9}, {9, 30, true}}) ==
        std::vector<int64_t>{5, 30});
}

TEST_CASE("a rank at which no matrix shrinks sends plain sums and has no memory to save") {
  const auto run = [](Communicator& comm, int rank) { return Run(comm, Options(rank), 2); };
  const auto plain = RunRanks(2, [&](Communicator& comm) { return run(comm, 0); });
  const auto compressed = RunRanks(2, [&](Communicator& comm) { return run(comm, 1000); });
  CHECK(compressed[0].last == plain[0].last);
  CHECK(compressed[1].last == plain[0].last);
  const auto has_memory = RunRanks(2, [](Communicator& comm) {
    std::vector<float> flat(kAll);
    const GradientReducerOptions options = Options(1000);
    GradientReducer reducer(View(flat), Parameters(), comm, options);
    return internal::PowerSgdMemoryOf(reducer) != nullptr;
  });
  CHECK_FALSE(has_memory[0]);
}

TEST_CASE("whoever waits for a late rank's factors is known to wait") {
  const auto waited = RunRanksOn({"a", "b"}, [](Communicator& comm) {
    std::vector<float> flat(kAll);
    GradientReducer reducer(View(flat), Parameters(), comm, Options(2));
    for (int step = 0; step < 5; ++step) {
      if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      Step(reducer);
    }
    return HeartbeatOf(comm)->Read().waited_seconds;
  });
  CHECK(waited[0] > 0.05);
}

TEST_CASE("factors travel in 16 bits too, and on two hosts all ranks get the same bits") {
  for (const DType wire : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto ledgers =
        RunRanksOn(kTwoHosts, [&](Communicator& comm) { return Run(comm, Options(2, wire), 4); });
    for (const Ledger& ledger : ledgers) CHECK(ledger.last == ledgers[0].last);
    // The sum's own rounding: about 4 ranks * 4 steps * |sum| <= 4, relative 2^-9 or 2^-12.
    const double tolerance = wire == DType::kBFloat16 ? 0.1 : wire == DType::kFloat16 ? 0.02 : 1e-5;
    CHECK(Lost(ledgers, 4) < tolerance);
  }
}

TEST_CASE("steps before the start are plain sums") {
  const auto run = [](Communicator& comm, int rank, int steps) {
    GradientReducerOptions options = Options(rank);
    options.power_sgd.start_step = 2;
    return Run(comm, options, steps).last;
  };
  for (const int steps : {2, 3}) {
    const auto plain = RunRanks(2, [&](Communicator& comm) { return run(comm, 0, steps); });
    const auto compressed = RunRanks(2, [&](Communicator& comm) { return run(comm, 2, steps); });
    CHECK((compressed[0] == plain[0]) == (steps == 2));
    CHECK(compressed[0] == compressed[1]);
  }
}

TEST_CASE("statistics count the factors and the rest") {
  const auto bytes = RunRanks(2, [](Communicator& comm) {
    std::vector<float> flat(kAll);
    GradientReducer reducer(View(flat), Parameters(), comm, Options(2, DType::kBFloat16));
    Step(reducer);
    return reducer.statistics().bytes;
  });
  const int64_t factors = 2 * (kRows + kColumns + kSecondRows + kSecondColumns);
  CHECK(bytes[0] == 2 * (factors + kBias + 3 + kSmall));
}

TEST_CASE("an embedding's gradient travels whole, since factors would smear its rows") {
  for (const bool is_embedding : {false, true}) {
    const auto bytes = RunRanks(2, [&](Communicator& comm) {
      ParameterSet parameters;
      Parameter& table = Scope(parameters, "model").Add("weight", {kRows, kColumns}, {});
      if (is_embedding) table.MarkEmbedding();
      parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
      GradientReducer reducer(parameters, comm, Options(2));
      reducer.MarkReady(0);
      reducer.Finish();
      return reducer.statistics().bytes;
    });
    CHECK(bytes[1] == 4 * (is_embedding ? kFirst : 2 * (kRows + kColumns)));
  }
}

TEST_CASE("a large table that travels whole goes in pieces, between compressed matrices") {
  constexpr int64_t kTable = (3 << 19) + 7;
  constexpr int64_t kTableEnd = kFirst + kTable;
  const std::vector<GradientRange> parameters = {
      {"first", 0, kFirst, kRows, kColumns},
      {"table", kFirst, kTableEnd},
      {"second", kTableEnd, kTableEnd + kSecond, kSecondRows, kSecondColumns}};
  const auto gradients = [&](int rank) {
    std::vector<float> flat(static_cast<size_t>(kTableEnd + kSecond));
    for (size_t i = 0; i < flat.size(); ++i) {
      // Whole numbers in the table, ones in the matrices: sums are exact.
      const bool is_table = i >= static_cast<size_t>(kFirst) && i < static_cast<size_t>(kTableEnd);
      flat[i] = is_table ? static_cast<float>(i % 1001) + static_cast<float>(rank) : 1.0f;
    }
    return flat;
  };
  for (const std::vector<std::string>& hosts : {{"a", "a", "a"}, kTwoHosts}) {
    const auto ranks = static_cast<int>(hosts.size());
    const auto results = RunRanksOn(hosts, [&](Communicator& comm) {
      std::vector<float> flat = gradients(comm.rank());
      GradientReducer reducer(View(flat), parameters, comm, Options(2));
      for (int i = 0; i < 3; ++i) reducer.MarkReady(i);
      reducer.Finish();
      return flat;
    });
    std::vector<double> expected(results[0].size());
    for (int r = 0; r < ranks; ++r) {
      const std::vector<float> part = gradients(r);
      for (size_t i = 0; i < part.size(); ++i) expected[i] += double{part[i]};
    }
    for (const auto& flat : results) {
      CHECK(LargestDifference(flat, expected) < 1e-5);
      CHECK(flat == results[0]);
    }
  }
}

TEST_CASE("a step with infinite gradients on one rank is NaN on all and leaves no trace") {
  const std::vector<std::string> hosts = GENERATE(testing::OneHost(2), kTwoHosts);
  const int first = GENERATE(0, 1);  // step before which, and before all later ones, one is broken
  INFO(hosts.size() << " ranks, from step " << first << " on");
  const auto run = [&](bool broken) {
    return RunRanksOn(hosts, [broken, first](Communicator& comm) {
      std::vector<float> flat(kAll);
      GradientReducer reducer(View(flat), Parameters(), comm, Options(2));
      bool all_nan = true;
      for (int step = 0; step < 3; ++step) {
        if (broken && step >= first) {
          std::ranges::copy(Noise(kAll, 999), flat.begin());
          if (comm.rank() == 1) flat[kBias + 7] = std::numeric_limits<float>::infinity();
          const std::vector<float> errors = internal::PowerSgdMemoryOf(reducer)->errors;
          Step(reducer);
          all_nan = all_nan && std::isnan(flat[kBias]) && std::isnan(flat[kAll - 1]) &&
                    internal::PowerSgdMemoryOf(reducer)->errors == errors;
        }
        std::ranges::copy(Noise(kAll, SeedOf(step, comm.rank())), flat.begin());
        Step(reducer);
      }
      if (!all_nan) flat.clear();
      return flat;
    });
  };
  const auto clean = run(false);
  const auto skipping = run(true);
  REQUIRE(skipping[0].size() == kAll);
  for (const std::vector<float>& flat : skipping) CHECK(flat == skipping[0]);
  // Where the first step was broken the random start is another one. Else the factors are those of
  // the good step before, made as long as they are once more.
  const auto worst = [&](size_t count) {
    double difference = 0.0;
    for (size_t i = 0; i < count; ++i) {
      difference = std::max(difference, std::abs(double{skipping[0][i]} - double{clean[0][i]}));
    }
    return difference;
  };
  CHECK(worst(kBias) == 0.0);
  if (first > 0) CHECK(worst(kAll) < 1e-5);
}

TEST_CASE("the memory is free of the loss scale") {
  const auto run = [](float second_scale) {
    return RunRanks(2, [second_scale](Communicator& comm) {
      std::vector<float> flat(kAll);
      float scale = 1.0f;
      GradientReducer reducer(View(flat), Parameters(), comm, Options(2));
      reducer.SetGradientScale(Tensor::View(&scale, {1}));
      for (int step = 0; step < 3; ++step) {
        std::ranges::copy(Noise(kAll, SeedOf(step, comm.rank())), flat.begin());
        scale = step == 1 ? second_scale : 1.0f;
        for (float& value : flat) value *= scale;
        Step(reducer);
      }
      return flat;
    });
  };
  CHECK(run(4096.0f)[0] == run(1.0f)[0]);
}

// Steps [from, to) of a run whose memory went through a checkpoint before step `from`.
std::vector<float> Continue(Communicator& comm, const std::string& path, int from, int to) {
  std::vector<float> flat(kAll);
  GradientReducer reducer(View(flat), Parameters(), comm, Options(2));
  reducer.SetStep(from);
  internal::GatheredMemory gathered;
  if (from > 0 && comm.is_root()) {
    const auto checkpoint = Checkpoint::Open(path);
    if (!checkpoint.ok()) return {};
    auto read = ReadMemory(*checkpoint, *internal::PowerSgdMemoryOf(reducer));
    if (!read.ok()) return {};
    gathered = *std::move(read);
  }
  SpreadMemory(gathered, comm, *internal::PowerSgdMemoryOf(reducer));
  for (int step = from; step < to; ++step) {
    std::ranges::copy(Noise(kAll, SeedOf(step, comm.rank())), flat.begin());
    Step(reducer);
  }
  std::vector<CheckpointFile> files;
  files.push_back(GatherMemory(*internal::PowerSgdMemoryOf(reducer), comm));
  if (comm.is_root() && !WriteCheckpointFiles(path + ".next", to, files).ok()) return {};
  comm.Barrier();
  return flat;
}

TEST_CASE("through a checkpoint and back, the next sums are the same bits") {
  for (const std::vector<std::string>& hosts :
       {testing::OneHost(2), testing::OneHost(3), kTwoHosts, {"a", "b", "b", "a"}}) {
    INFO(hosts.size() << " ranks, the last on " << hosts.back());
    const TemporaryFolder folder;
    const auto path = [&](const std::string& name) {
      std::filesystem::create_directories(folder.File(name) + ".next");
      return folder.File(name);
    };
    const std::string whole_path = path("whole");
    const auto whole =
        RunRanksOn(hosts, [&](Communicator& comm) { return Continue(comm, whole_path, 0, 5); });
    const std::string first = path("first");
    RunRanksOn(hosts, [&](Communicator& comm) { return Continue(comm, first, 0, 3); });
    const std::string second = first + ".next";
    std::filesystem::create_directories(second + ".next");
    const auto resumed =
        RunRanksOn(hosts, [&](Communicator& comm) { return Continue(comm, second, 3, 5); });
    CHECK(!whole[0].empty());
    for (const auto& flat : resumed) CHECK(flat == whole[0]);
  }
}

// What all ranks owe, and each one's factors, after a checkpoint of `from` was read by `to`.
struct Restored {
  std::string note;
  std::vector<double> owed;
  std::vector<float> factors;
};
std::vector<Restored> Restore(const std::string& path, const std::vector<std::string>& to,
                              const GradientReducerOptions& options) {
  return RunRanksOn(to, [&](Communicator& comm) {
    std::vector<float> flat(kAll);
    GradientReducer reducer(View(flat), Parameters(), comm, options);
    PowerSgdMemory& memory = *internal::PowerSgdMemoryOf(reducer);
    const auto note = internal::RestoreMemory(path, comm, memory);
    return Restored{.note = note.value_or("failed"),
                    .owed = OwedBy(memory, comm.rank()),
                    .factors = memory.factors};
  });
}

std::vector<double> SumOfOwed(const std::vector<Restored>& ranks) {
  std::vector<double> sum(kAll);
  for (const Restored& rank : ranks) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += rank.owed[i];
  }
  return sum;
}

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0.0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST_CASE("another number of workers shares out the sum of the errors") {
  for (const std::vector<std::string>& from : {testing::OneHost(3), kTwoHosts}) {
    const TemporaryFolder folder;
    const std::string path = folder.File("run");
    std::filesystem::create_directories(path + ".next");
    RunRanksOn(from, [&](Communicator& comm) { return Continue(comm, path, 0, 2); });
    const auto same = Restore(path + ".next", from, Options(2));
    const std::vector<double> owed = SumOfOwed(same);
    CHECK(same[0].note.empty());
    CHECK(std::ranges::any_of(owed, [](double x) { return std::abs(x) > 0.1; }));
    for (const std::vector<std::string>& to :
         {testing::OneHost(4), {"a", "a", "a", "b", "b", "b", "c", "c", "c"}, {"a", "a", "b"}}) {
      INFO(from.size() << " ranks, then " << to.size());
      const auto other = Restore(path + ".next", to, Options(2));
      CHECK(LargestDifference(SumOfOwed(other), owed) < 1e-5);
      if (from.size() == 3 && to.size() != 4) continue;  // as many workers
      CHECK_THAT(other[0].note, Catch::Contains("is shared out over"));
    }
    const auto alone = Restore(path + ".next", testing::OneHost(2), Options(2));
    if (from.size() == 3) {
      CHECK(alone[0].owed == alone[1].owed);
      CHECK(alone[0].factors == same[0].factors);
      CHECK(std::ranges::any_of(alone[1].factors, [](float x) { return x != 0.0f; }));
    }
  }
}

TEST_CASE(
    "factors of another rank start anew, and errors of what is no longer compressed are told") {
  const TemporaryFolder folder;
  const std::string path = folder.File("run");
  std::filesystem::create_directories(path + ".next");
  RunRanks(2, [&](Communicator& comm) { return Continue(comm, path, 0, 2); });
  const auto same = Restore(path + ".next", testing::OneHost(2), Options(2));
  const auto higher = Restore(path + ".next", testing::OneHost(2), Options(3));
  CHECK(SumOfOwed(higher) == SumOfOwed(same));
  CHECK(std::ranges::all_of(higher[0].factors, [](float x) { return x == 0.0f; }));
  // At rank 10 the second matrix would not shrink to half.
  const auto fewer = Restore(path + ".next", testing::OneHost(2), Options(10));
  CHECK_THAT(fewer[0].note, Catch::Contains("of 1 parameters that this run does not compress"));
}

}  // namespace
}  // namespace dtrain
