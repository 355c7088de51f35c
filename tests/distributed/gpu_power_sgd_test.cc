// gpu_power_sgd_test.cc - PowerSGD between GPUs, on the emulated NCCL, beside that of the host.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/copy.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/internal/device_low_rank.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"
#include "dtrain/runs/checkpoint.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/host_executor/gpus.h"
#include "testing/host_executor/nccl.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using host_executor::BytesToHost;
using host_executor::Nccl;
using internal::PowerSgdMemory;
using testing::RunRanks;
using testing::RunRanksOn;

constexpr Device kGpu = {DeviceType::kCuda};
constexpr Device kHost = {DeviceType::kCpu};

// A vector, a matrix, one too small to gain, and another matrix, with padding between.
constexpr int64_t kBias = 13, kRows = 300, kColumns = 40, kSmall = 6, kWideRows = 24, kWide = 270;
constexpr int64_t kFirst = kRows * kColumns, kSecond = kWideRows * kWide;
constexpr int64_t kAll = kBias + kFirst + 3 + kSmall + kSecond;

std::vector<GradientRange> Parameters() {
  const int64_t small = kBias + kFirst + 3;
  return {{"bias", 0, kBias},
          {"first", kBias, small, kRows, kColumns},
          {"small", small, small + kSmall, 2, 3},
          {"second", small + kSmall, kAll, kWideRows, kWide}};
}

std::vector<float> Noise(int step, int rank) {
  RandomStream random({.seed = static_cast<uint64_t>(100 * step + rank)});
  std::vector<float> values(kAll);
  for (float& value : values) value = random.NextUniform() - 0.5f;
  return values;
}

struct Job {
  Device device = kGpu;
  DType wire_type = DType::kFloat32;
  int factor_rank = 3;
  int64_t start_step = 0;
  int steps = 4;
  float scale = 1.0f;    // of the second step
  int broken_step = -1;  // rank 1 has an infinity there
  int64_t broken_element = kBias + 7;
};

struct Outcome {
  std::vector<float> last, errors, factors;
  std::vector<double> owed, given;  // over all steps
  int64_t collectives = 0;          // of NCCL
  int64_t to_host = 0;              // the most bytes of a step
};

// The gradients' memory, and steps of a reducer on it.
class Trainer {
 public:
  Trainer(Communicator& comm, const Job& job)
      : comm_(comm),
        job_(job),
        memory_(job.device, kAll * sizeof(float)),
        scale_memory_(job.device, sizeof(float)),
        flat_(memory_.data(), {kAll}, DType::kFloat32, job.device),
        compute_(job.device),
        reducer_(
            flat_, Parameters(), comm,
            {.bucket_bytes = 4000,
             .first_bucket_bytes = 100,
             .wire_type = job.wire_type,
             .stream = compute_,
             .power_sgd = {.rank = job.factor_rank, .start_step = job.start_step, .seed = 5}}) {
    SetScale(1.0f);
    reducer_.SetGradientScale(Tensor(scale_memory_.data(), {1}, DType::kFloat32, job.device));
    reducer_.SetGradientTokens(8.0);
  }

  std::vector<float> Step(int step) {
    std::vector<float> host = Noise(step, comm_.rank());
    const float scale = step == 1 ? job_.scale : 1.0f;
    for (float& value : host) value *= scale;
    if (step == job_.broken_step && comm_.rank() == 1) {
      host[static_cast<size_t>(job_.broken_element)] = std::numeric_limits<float>::infinity();
    }
    SetScale(scale);
    CopyToDevice(flat_.raw(), host.data(), host.size() * sizeof(float), compute_);
    const int64_t before = BytesToHost();
    for (int i = 0; i < static_cast<int>(Parameters().size()); ++i) {
      reducer_.MarkReady(i);
      reducer_.Poll();
    }
    reducer_.Finish();
    to_host_ = std::max(to_host_, BytesToHost() - before);
    CopyToHost(host.data(), flat_.raw(), host.size() * sizeof(float), compute_);
    return host;
  }

  GradientReducer& reducer() { return reducer_; }
  int64_t to_host() const { return to_host_; }

 private:
  void SetScale(float scale) {
    CopyToDevice(scale_memory_.data(), &scale, sizeof(scale), compute_);
  }

  Communicator& comm_;
  Job job_;
  Buffer memory_, scale_memory_;
  Tensor flat_;
  Stream compute_;
  GradientReducer reducer_;
  int64_t to_host_ = 0;
};

Outcome Run(Communicator& comm, const Job& job) {
  Trainer trainer(comm, job);
  Outcome outcome;
  outcome.given.resize(kAll);
  for (int step = 0; step < job.steps; ++step) {
    outcome.last = trainer.Step(step);
    for (size_t i = 0; i < kAll; ++i) outcome.given[i] += double{outcome.last[i]};
  }
  if (const PowerSgdMemory* const memory = internal::PowerSgdMemoryOf(trainer.reducer())) {
    outcome.errors = memory->errors;
    outcome.factors = memory->factors;
    outcome.owed.resize(kAll);
    for (const internal::CompressedMatrix& matrix : memory->matrices) {
      for (int64_t i = 0; i < matrix.size.elements(); ++i) {
        outcome.owed[static_cast<size_t>(matrix.begin + i)] =
            8.0 * double{memory->errors[static_cast<size_t>(matrix.error_begin + i)]};
      }
    }
  }
  outcome.collectives = Nccl().collectives;
  outcome.to_host = trainer.to_host();
  return outcome;
}

std::vector<Outcome> RunJob(int ranks, const Job& job) {
  return RunRanks(ranks, [&](Communicator& comm) { return Run(comm, job); });
}

double Largest(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
  }
  return worst;
}

TEST_CASE("sums and errors of GPUs are those that the host computes") {
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    const auto gpus = RunJob(ranks, {});
    const auto hosts = RunJob(ranks, {.device = kHost});
    CHECK(gpus[0].collectives > 0);
    for (size_t r = 0; r < gpus.size(); ++r) {
      CHECK(gpus[r].last == gpus[0].last);
      CHECK(gpus[r].factors == gpus[0].factors);
      CHECK(Largest(gpus[r].last, hosts[r].last) < 2e-4);
      CHECK(Largest(gpus[r].errors, hosts[r].errors) < 2e-5);
    }
    CHECK(gpus[0].errors != gpus[1].errors);
  }
}

TEST_CASE("no gradient is lost, in each wire type: what the sums lack is in the GPUs' errors") {
  constexpr int kSteps = 5;
  for (const auto& [type, allowed] : std::vector<std::pair<DType, double>>{
           {DType::kFloat32, 2e-5}, {DType::kBFloat16, 0.1}, {DType::kFloat16, 0.02}}) {
    INFO(Name(type));
    const auto ranks = RunJob(3, {.wire_type = type, .steps = kSteps});
    // What travels whole is rounded, and nobody remembers that: only matrices are looked at.
    double worst = 0.0, owed = 0.0;
    for (const GradientRange& range : Parameters()) {
      if (range.rows < 10) continue;
      for (auto i = static_cast<size_t>(range.begin);
           i < static_cast<size_t>(range.begin + range.rows * range.columns); ++i) {
        double total = 0.0;
        for (int r = 0; r < 3; ++r) {
          for (int step = 0; step < kSteps; ++step) total += double{Noise(step, r)[i]};
          total -= ranks[static_cast<size_t>(r)].owed[i];
          owed = std::max(owed, std::abs(ranks[static_cast<size_t>(r)].owed[i]));
        }
        worst = std::max(worst, std::abs(total - ranks[0].given[i]));
        if (i > static_cast<size_t>(range.begin) + 200) break;  // Noise() is slow
      }
    }
    CHECK(worst < allowed);
    CHECK(owed > 0.1);
  }
}

TEST_CASE("on two hosts every GPU compresses alone, and all get the same sums") {
  const auto ranks =
      RunRanksOn({"a", "a", "b", "b"}, [](Communicator& comm) { return Run(comm, Job{}); });
  const auto one_host = RunJob(4, {});
  for (const Outcome& rank : ranks) {
    CHECK(rank.last == ranks[0].last);
    CHECK(rank.errors.size() == static_cast<size_t>(kFirst + kSecond));
    CHECK(Largest(rank.last, one_host[0].last) < 2e-4);
  }
}

TEST_CASE("no byte of a step's gradients passes through the host") {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const Outcome& rank : RunJob(2, {.wire_type = type})) CHECK(rank.to_host == 0);
  }
}

TEST_CASE("the GPUs' memory is free of the loss scale") {
  const auto plain = RunJob(2, {.steps = 3});
  const auto scaled = RunJob(2, {.steps = 3, .scale = 4096.0f});
  CHECK(scaled[0].last == plain[0].last);
  CHECK(scaled[1].errors == plain[1].errors);
}

TEST_CASE("a step that is not finite spoils its sums alone: errors and factors stay") {
  for (const int64_t element : {int64_t{2}, kBias + 7, kAll - 1}) {
    INFO("element " << element);
    const auto before = RunJob(2, {.steps = 2});
    const auto broken = RunJob(2, {.steps = 3, .broken_step = 2, .broken_element = element});
    for (size_t r = 0; r < 2; ++r) {
      CHECK(broken[r].errors == before[r].errors);
      CHECK(broken[r].factors == before[r].factors);
      CHECK(std::isnan(broken[r].last[kBias + 5]));
      CHECK(std::isnan(broken[r].last[kAll - 3]));
    }
  }
}

TEST_CASE("before the start step gradients of GPUs travel whole") {
  const auto ranks = RunJob(2, {.start_step = 2, .steps = 2});
  for (const Outcome& rank : ranks) {
    double worst = 0.0;
    const std::vector<float> a = Noise(1, 0), b = Noise(1, 1);
    for (size_t i = 0; i < kAll; ++i) {
      worst = std::max(worst, std::abs(double{rank.last[i]} - double{a[i]} - double{b[i]}));
    }
    CHECK(worst < 1e-6);
  }
  const auto later = RunJob(2, {.start_step = 2, .steps = 4});
  CHECK(!later[0].errors.empty());
}

// Steps [from, to), with the memory of a checkpoint before step `from` and after the last one.
std::vector<float> Continue(Communicator& comm, const std::string& path, int from, int to,
                            const Device& device = kGpu) {
  Trainer trainer(comm, {.device = device});
  GradientReducer& reducer = trainer.reducer();
  reducer.SetStep(from);
  if (from > 0) {
    const auto note = internal::RestoreMemory(path, comm, *internal::PowerSgdMemoryOf(reducer));
    if (!note.ok()) return {};
    internal::PutPowerSgdMemory(reducer);
  }
  std::vector<float> last;
  for (int step = from; step < to; ++step) last = trainer.Step(step);
  std::vector<CheckpointFile> files;
  files.push_back(GatherMemory(*internal::PowerSgdMemoryOf(reducer), comm));
  if (comm.is_root() && !WriteCheckpointFiles(path + ".next", to, files).ok()) return {};
  comm.Barrier();
  return last;
}

TEST_CASE("GPUs go on from their checkpoint, and from one of the host's") {
  for (const Device& writer : {kGpu, kHost}) {
    const TemporaryFolder folder;
    const auto prepared = [&](const std::string& name) {
      std::filesystem::create_directories(folder.File(name) + ".next");
      return folder.File(name);
    };
    const std::string whole_path = prepared("whole");
    const auto whole =
        RunRanks(2, [&](Communicator& comm) { return Continue(comm, whole_path, 0, 4); });
    const std::string first = prepared("first");
    RunRanks(2, [&](Communicator& comm) { return Continue(comm, first, 0, 2, writer); });
    const std::string second = first + ".next";
    std::filesystem::create_directories(second + ".next");
    const auto resumed =
        RunRanks(2, [&](Communicator& comm) { return Continue(comm, second, 2, 4); });
    REQUIRE(!whole[0].empty());
    for (const auto& last : resumed) {
      CHECK(last == resumed[0]);
      CHECK(Largest(last, whole[0]) < (writer.type == DeviceType::kCuda ? 1e-6 : 2e-4));
    }
  }
}

TEST_CASE("rows that depend on others become zero on a GPU, too, and the rest is orthonormal") {
  constexpr int kCount = 5;
  constexpr int64_t kLength = 700;
  RandomStream random({.seed = 3});
  std::vector<float> rows(kCount * kLength);
  for (float& value : rows) value = random.NextUniform() - 0.5f;
  std::copy_n(rows.begin(), kLength, rows.begin() + 2 * kLength);  // row 2 is row 0
  std::fill_n(rows.begin() + 3 * kLength, kLength, 0.0f);
  std::vector<float> expected = rows;
  internal::OrthonormaliseRows(expected.data(), kCount, kLength);
  Stream stream(kGpu);
  const Buffer memory(kGpu, (rows.size() + 11) * sizeof(float));
  float* const at = reinterpret_cast<float*>(memory.data()) + 11;
  CopyToDevice(at, rows.data(), rows.size() * sizeof(float), stream);
  const std::vector<internal::FactorRows> factors = {{.begin = 11, .length = kLength}};
  internal::OrthonormaliseOnDevice(reinterpret_cast<float*>(memory.data()), factors, kCount,
                                   stream);
  CopyToHost(rows.data(), at, rows.size() * sizeof(float), stream);
  CHECK(Largest(rows, expected) < 1e-6);
  for (int r = 0; r < kCount; ++r) {
    for (int other = 0; other <= r; ++other) {
      double dot = 0.0;
      for (int64_t i = 0; i < kLength; ++i) {
        dot += double{rows[static_cast<size_t>(r * kLength + i)]} *
               double{rows[static_cast<size_t>(other * kLength + i)]};
      }
      const double length = r == 2 || r == 3 ? 0.0 : 1.0;
      CHECK(std::abs(dot - (r == other ? length : 0.0)) < 1e-6);
    }
  }
}

}  // namespace
}  // namespace dtrain
