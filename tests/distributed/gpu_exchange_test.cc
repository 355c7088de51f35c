// gpu_exchange_test.cc - gradients that travel from GPU to GPU, on the emulated NCCL.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/log.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/copy.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/ops/cast.h"
#include "testing/catch.h"
#include "testing/host_executor/nccl.h"
#include "testing/tolerance.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

using host_executor::Nccl;
using testing::RunRanks;
using testing::RunRanksOn;

constexpr Device kGpu = {DeviceType::kCuda};
constexpr int64_t kSizes[] = {7, 1000, 0, 40000, 3, 129, 30001, 2048};

std::vector<GradientRange> Parameters() {
  std::vector<GradientRange> ranges;
  int64_t begin = 0;
  for (const int64_t size : kSizes) {
    ranges.push_back({"layer." + std::to_string(ranges.size()), begin, begin + size});
    begin += size;
  }
  return ranges;
}

float Gradient(size_t i, int rank, int step) {
  return std::sin(static_cast<float>(i) * 0.37f + static_cast<float>(rank * 5 + step));
}

struct Sums {
  std::vector<float> values;
  int64_t collectives = 0;  // of NCCL
};

// What is in the gradients after two reduced steps; they are doubled on the compute stream just
// before they are marked.
Sums TwoSteps(Communicator& comm, DType wire_type) {
  const int64_t count = Parameters().back().end;
  const Buffer memory(kGpu, static_cast<size_t>(count) * sizeof(float));
  Tensor flat(memory.data(), {count}, DType::kFloat32, kGpu);
  Stream compute(kGpu);
  GradientReducer reducer(flat, Parameters(), comm,
                          {.bucket_bytes = 100000,
                           .first_bucket_bytes = 5000,
                           .wire_type = wire_type,
                           .stream = compute});
  std::vector<float> host(static_cast<size_t>(count));
  for (int step = 0; step < 2; ++step) {
    for (size_t i = 0; i < host.size(); ++i) host[i] = 0.5f * Gradient(i, comm.rank(), step);
    CopyToDevice(flat.raw(), host.data(), host.size() * sizeof(float), compute);
    Scale(flat, 2.0f, compute);
    for (int i = static_cast<int>(std::size(kSizes)) - 1; i >= 0; --i) {
      reducer.MarkReady(i);
      reducer.Poll();
    }
    reducer.Finish();
  }
  CopyToHost(host.data(), flat.raw(), host.size() * sizeof(float), compute);
  return {host, Nccl().collectives};
}

void CheckSums(const std::vector<Sums>& by_rank, double tolerance) {
  const int size = static_cast<int>(by_rank.size());
  double worst = 0;
  for (size_t i = 0; i < by_rank[0].values.size(); ++i) {
    double expected = 0;
    for (int r = 0; r < size; ++r) expected += static_cast<double>(Gradient(i, r, 1));
    worst = std::max(worst, std::abs(static_cast<double>(by_rank[0].values[i]) - expected));
  }
  CHECK(worst <= tolerance);
  for (const Sums& sums : by_rank) CHECK(sums.values == by_rank[0].values);
}

TEST_CASE("every rank gets the sum of all gradients, in each wire type") {
  const std::vector<std::pair<DType, double>> types = {
      {DType::kFloat32, 1e-6}, {DType::kBFloat16, 1.0 / 256}, {DType::kFloat16, 1.0 / 2048}};
  for (const auto& [type, unit] : types) {
    for (const int size : {2, 3, 4}) {
      INFO(size << " ranks, " << Name(type));
      const auto sums =
          RunRanks(size, [type = type](Communicator& comm) { return TwoSteps(comm, type); });
      CheckSums(sums, unit * size);
      CHECK(sums[0].collectives > 0);
    }
  }
}

TEST_CASE("on two hosts too, where sums go within hosts, across and back") {
  const auto sums = RunRanksOn({"a", "a", "b", "b"},
                               [](Communicator& comm) { return TwoSteps(comm, DType::kFloat32); });
  CheckSums(sums, 4e-6);
  CHECK(sums[0].collectives > 0);
}

TEST_CASE("float16 on the wire survives sums beyond its range") {
  const auto sums = RunRanks(4, [](Communicator& comm) {
    const Buffer memory(kGpu, 400);
    Tensor flat(memory.data(), {100}, DType::kFloat32, kGpu);
    Stream compute(kGpu);
    std::vector<float> host(100, 60000.0f);
    GradientReducer reducer(flat, {{"w", 0, 100}}, comm,
                            {.wire_type = DType::kFloat16, .stream = compute});
    CopyToDevice(flat.raw(), host.data(), 400, compute);
    reducer.MarkReady(0);
    reducer.Finish();
    CopyToHost(host.data(), flat.raw(), 400, compute);
    return host;
  });
  for (const float value : sums[3]) CHECK(std::abs(value - 240000.0f) < 120.0f);
}

TEST_CASE("without NCCL on one rank all sums travel through the host, and a warning says why") {
  std::mutex mutex;
  std::string lines;
  const LogSink before = SetLogSink([&](LogLevel level, std::string_view line) {
    const std::scoped_lock lock(mutex);
    if (level == LogLevel::kWarning) lines += line;
  });
  const auto sums = RunRanks(3, [](Communicator& comm) {
    Nccl().is_absent = comm.rank() == 1;
    return TwoSteps(comm, DType::kFloat32);
  });
  SetLogSink(before);
  CheckSums(sums, 3e-6);
  for (const Sums& rank : sums) CHECK(rank.collectives == 0);
  CHECK(lines ==
        "gradients travel through the host's memory, without NCCL: rank 1 (host a): NCCL cannot be "
        "loaded");
}

// With streams that run late nothing has run until somebody waits.
TEST_CASE("a bucket is handed over without waiting for the device") {
  if (std::getenv("DTRAIN_EXECUTOR_STREAMS") == nullptr) return;
  const auto seen = RunRanks(2, [](Communicator& comm) {
    const Buffer memory(kGpu, 400);
    Tensor flat(memory.data(), {100}, DType::kFloat32, kGpu);
    Stream compute(kGpu);
    GradientReducer reducer(flat, {{"v", 0, 50}, {"w", 50, 100}}, comm,
                            {.bucket_bytes = 200, .first_bucket_bytes = 200, .stream = compute});
    const std::vector<float> ones(100, 1.0f);
    CopyToDevice(flat.raw(), ones.data(), 400, compute);
    reducer.MarkReady(0);
    reducer.MarkReady(1);
    const float handed_over = flat.data<float>()[0];
    reducer.Finish();
    SynchronizeDevice(kGpu);
    return std::pair(handed_over, flat.data<float>()[99]);
  });
  for (const auto& [handed_over, sum] : seen) {
    CHECK(handed_over == 0.0f);
    CHECK(sum == 2.0f);
  }
}

// A run whose updates follow the gradients smoothly.
ToyRun SmoothRun(const ToyCorpus& corpus, CudaGraphs graphs) {
  ToyRun run = MakeToyRun(corpus);
  run.task.device = kGpu;
  run.nccl = true;
  run.task.batch.tokens_per_batch = 100000;  // the whole corpus: the same shapes each time
  run.task.micro_batch_tokens = 100000;
  run.trainer.max_steps = 4;
  run.trainer.adam.epsilon = 1e-3f;
  run.trainer.cuda_graphs = graphs;
  return run;
}

TEST_CASE("weights trained on several GPUs are those of one, with recorded steps and without") {
  const ToyCorpus corpus(12, 1);
  const ToyResult one = TrainToy(SmoothRun(corpus, CudaGraphs::kOff))[0];
  REQUIRE(one.exit_code == ExitCode::kDone);
  for (const CudaGraphs graphs : {CudaGraphs::kOff, CudaGraphs::kOn}) {
    for (const int ranks : graphs == CudaGraphs::kOff ? std::vector{2, 3} : std::vector{2}) {
      INFO(ranks << " ranks, graphs " << static_cast<int>(graphs));
      ToyRun run = SmoothRun(corpus, graphs);
      run.ranks = ranks;
      std::mutex mutex;
      int64_t fewest = std::numeric_limits<int64_t>::max();
      run.before_update = [&](int64_t step, ParameterSet&) {
        const std::scoped_lock lock(mutex);
        if (step == 3) fewest = std::min(fewest, Nccl().collectives);
      };
      const std::vector<ToyResult> results = TrainToy(run);
      CHECK(fewest > 3);
      for (const ToyResult& result : results) {
        CHECK(result.exit_code == ExitCode::kDone);
        CHECK(result.weights == results[0].weights);
        CHECK(LargestDifference(result.weights, one.weights) < 1e-6);
        CHECK((result.graphs_repeated > 0) == (graphs == CudaGraphs::kOn));
      }
    }
  }
}

}  // namespace
}  // namespace dtrain
