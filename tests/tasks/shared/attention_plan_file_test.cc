// attention_plan_file_test.cc - who computes a run's attention, on one rank and on several.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/attention_plan_file.h"

#include <string>
#include <vector>

#include "dtrain/base/file.h"
#include "dtrain/device/arena.h"
#include "dtrain/ops/attention.h"
#include "dtrain/ops/cast.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/host_executor/cudnn.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using cuda::FusedAttentionShape;
using host_executor::Cudnn;

constexpr Device kGpu = {DeviceType::kCuda};

constexpr AttentionWorkload kWorkload = {
    .hidden_size = 32, .num_heads = 2, .max_length = 40, .tokens = 40};

void Attend() {
  Stream stream(kGpu);
  const auto arena = Arena::Create(kGpu, "test");
  const Sequences sequences({0, 5, 9});
  Tensor x = Empty(*arena, {9, 32}, DType::kBFloat16);
  Tensor out = Empty(*arena, {9, 32}, DType::kBFloat16);
  Tensor statistics = Empty(*arena, {9, 2}, DType::kFloat32);
  Zero(x, stream);
  AttentionForward(x, x, x, sequences, sequences, {.num_heads = 2}, out, statistics, stream);
  stream.Synchronize();
}

// What a rank saw.
struct Seen {
  std::string error;
  int exit_code = 0;
  size_t read = 0, measured = 0;
  int64_t runs = 0;    // of cuDNN while preparing
  bool cudnn = false;  // computed attention afterwards
};

// All ranks prepare; on rank r cuDNN takes `seconds[r]`, or is missing where that is negative.
std::vector<Seen> Prepare(AttentionEngine engine, const std::string& path,
                          const std::vector<double>& seconds) {
  return testing::RunRanks(static_cast<int>(seconds.size()), [&](Communicator& comm) {
    const double mine = seconds[static_cast<size_t>(comm.rank())];
    Cudnn().seconds = [mine](const FusedAttentionShape&) { return mine; };
    if (mine < 0.0) Cudnn().missing = "no cuDNN here: install it";
    Seen seen;
    const auto report =
        PrepareAttentionPlans({.engine = engine, .path = path}, kWorkload, kGpu, comm);
    seen.runs = Cudnn().runs;
    seen.error = report.status().message();
    seen.exit_code = static_cast<int>(report.status().code());
    if (!report.ok()) return seen;
    seen.read = report->read;
    seen.measured = report->measured;
    const int64_t before = Cudnn().runs;
    Attend();
    seen.cudnn = Cudnn().runs > before;
    return seen;
  });
}

TEST_CASE("attention is native unless cuDNN is asked for") {
  const std::vector<Seen> native = Prepare(AttentionEngine::kNative, "", {0.0});
  CHECK_FALSE(native[0].cudnn);
  CHECK(native[0].runs == 0);
  const std::vector<Seen> cudnn = Prepare(AttentionEngine::kCudnn, "", {1e6, 1e6});
  CHECK(cudnn[0].cudnn);
  CHECK(cudnn[1].cudnn);
  CHECK(cudnn[0].runs == 0);
}

TEST_CASE("all ranks use the engine that measured faster on the root rank, and a file keeps it") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/plans/attention_plans.txt";
  const std::vector<Seen> first = Prepare(AttentionEngine::kAuto, path, {0.0, 1e6});
  CHECK(first[0].measured == 2);
  CHECK(first[0].runs > 0);
  CHECK(first[1].runs == 0);
  CHECK(first[0].cudnn);
  CHECK(first[1].cudnn);
  CHECK_THAT(*ReadWholeFile(path), Catch::Contains("queries=64 keys=64 heads=2 dim=16 causal=0 "
                                                   "backward=0 type=bf16"));
  // The next job reads the file, whatever would be faster now.
  const std::vector<Seen> second = Prepare(AttentionEngine::kAuto, path, {1e6, 1e6});
  CHECK(second[0].read == 2);
  CHECK(second[0].measured == 0);
  CHECK(second[1].cudnn);
  REQUIRE(WriteFileAtomically(path, "nonsense\n").ok());
  CHECK_FALSE(Prepare(AttentionEngine::kAuto, path, {1e6})[0].cudnn);
}

TEST_CASE("cudnn where a rank has none ends all ranks with code 2; auto stays native on all") {
  const std::vector<Seen> asked = Prepare(AttentionEngine::kCudnn, "", {0.0, -1.0});
  CHECK(asked[0].exit_code == 2);
  CHECK_THAT(asked[0].error, Catch::Contains("another rank cannot use cuDNN"));
  CHECK(asked[1].exit_code == 2);
  CHECK_THAT(asked[1].error, Catch::StartsWith("kernels.attention=cudnn"));
  CHECK_THAT(asked[1].error, Catch::EndsWith("no cuDNN here: install it"));
  const std::vector<Seen> automatic = Prepare(AttentionEngine::kAuto, "", {0.0, -1.0});
  for (const Seen& seen : automatic) {
    CHECK(seen.exit_code == 0);
    CHECK(seen.runs == 0);
    CHECK_FALSE(seen.cudnn);
  }
}

TEST_CASE("what cuDNN never takes is not measured") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/attention_plans.txt";
  AttentionWorkload workload = kWorkload;
  const bool drops = GENERATE(true, false);
  drops ? void(workload.dropout = 0.1F) : void(workload.type = DType::kFloat32);
  const auto run = [&](Communicator& comm) {
    const auto report = PrepareAttentionPlans({.engine = AttentionEngine::kAuto, .path = path},
                                              workload, kGpu, comm);
    return report.ok() && report->measured == 0 && Cudnn().runs == 0;
  };
  CHECK(testing::RunRanks(1, run)[0]);
  CHECK_FALSE(ReadWholeFile(path).ok());
}

TEST_CASE("attention of an encoder and a decoder is measured in every length") {
  const TemporaryFolder folder;
  // As a translation run has it (tasks/translation/program.cc).
  const AttentionWorkload workload{.hidden_size = 16,
                                   .num_heads = 2,
                                   .max_length = 71,
                                   .tokens = 64,
                                   .self = true,
                                   .causal = true,
                                   .cross = true};
  const AttentionPlanOptions options{.engine = AttentionEngine::kAuto,
                                     .path = folder.path() + "/attention_plans.txt"};
  const auto run = [&](Communicator& comm) {
    return PrepareAttentionPlans(options, workload, kGpu, comm).status().message();
  };
  CHECK(testing::RunRanks(1, run)[0].empty());
  const std::string text = *ReadWholeFile(folder.path() + "/attention_plans.txt");
  for (const char* part :
       {"queries=64 keys=64 heads=2 dim=8 causal=0 backward=0", "causal=1 backward=1",
        "queries=64 keys=128 heads=2 dim=8 causal=0 backward=1",
        "queries=128 keys=64 heads=2 dim=8 causal=0 backward=0",
        "queries=128 keys=128 heads=2 dim=8 causal=1"}) {
    INFO(part);
    CHECK_THAT(text, Catch::Contains(part));
  }
}

}  // namespace
}  // namespace dtrain
