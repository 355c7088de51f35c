// gemm_plan_file_test.cc - one rank measures, all use, the file remembers; cuBLASLt emulated.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/gemm_plan_file.h"

#include <filesystem>
#include <string>
#include <vector>

#include "dtrain/base/file.h"
#include "dtrain/classification.pb.h"
#include "dtrain/config/config.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/tasks/classification/config.h"
#include "dtrain/tasks/classification/warm_up.h"
#include "dtrain/tasks/shared/bert_memory.h"
#include "dtrain/tasks/shared/bert_options.h"
#include "dtrain/tasks/shared/kernel_plans.h"
#include "dtrain/tasks/translation/memory_plan.h"
#include "dtrain/tasks/translation/options.h"
#include "dtrain/tasks/translation/warm_up.h"
#include "testing/catch.h"
#include "testing/file_testing.h"
#include "testing/host_executor/cublaslt.h"
#include "testing/op_cases.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using host_executor::Cublas;
using host_executor::CublasProduct;

constexpr Device kGpu = {DeviceType::kCuda};

// Multiplies on this thread's GPU; says which algorithm ran.
uint64_t Multiply(int64_t rows) {
  Stream stream(kGpu);
  const auto arena = Arena::Create(kGpu, "test");
  const Tensor x = Empty(*arena, {rows, 16}, DType::kBFloat16);
  const Tensor weight = Empty(*arena, {24, 16}, DType::kBFloat16);
  Tensor y = Empty(*arena, {rows, 24}, DType::kBFloat16);
  Gemm(x, weight, {.transpose_b = true}, y, stream);
  return Cublas().last.algorithm;
}

// What a rank saw.
struct Seen {
  std::string error;
  int exit_code = 0;
  size_t read = 0, measured = 0;
  int warm_ups = 0;
  uint64_t algorithm = 0;  // of a product afterwards
};

// All ranks prepare; on rank r algorithm `fastest[r]` would measure best.
std::vector<Seen> Prepare(const std::string& path, const std::vector<uint64_t>& fastest,
                          GemmTuning tuning = GemmTuning::kMeasure, size_t version_of_last = 0) {
  return testing::RunRanks(static_cast<int>(fastest.size()), [&](Communicator& comm) {
    Cublas().seconds = [&](const CublasProduct& product) {
      return product.algorithm == fastest[static_cast<size_t>(comm.rank())] ? 1.0 : 5.0;
    };
    if (version_of_last != 0 && comm.rank() == comm.size() - 1) Cublas().version = version_of_last;
    Seen seen;
    const StatusOr<PlanReport> report =
        PrepareGemmPlans({.tuning = tuning, .path = path}, kGpu, comm, [&] {
          ++seen.warm_ups;
          Multiply(64);
        });
    seen.error = report.status().message();
    seen.exit_code = static_cast<int>(report.status().code());
    if (report.ok()) {
      seen.read = report->read;
      seen.measured = report->measured;
      seen.algorithm = Multiply(64);
    }
    return seen;
  });
}

TEST_CASE("all ranks use what the root rank measured") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/plans/gemm_plans.txt";
  const std::vector<Seen> first = Prepare(path, {2, 1, 1});
  for (const Seen& seen : first) {
    CHECK(seen.error.empty());
    CHECK(seen.algorithm == 2);
  }
  CHECK(first[0].measured == 1);
  CHECK(first[0].warm_ups == 1);
  CHECK(first[1].warm_ups == 0);
  CHECK_THAT(*ReadWholeFile(path), Catch::StartsWith("dtrain gemm plans 1\n"));
  // The next job reads the file, whatever would be fastest now.
  const std::vector<Seen> second = Prepare(path, {1, 1});
  CHECK(second[0].read == 1);
  CHECK(second[0].measured == 0);
  CHECK(second[1].algorithm == 2);
}

TEST_CASE("a damaged file or one of another library is measured anew and replaced") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/gemm_plans.txt";
  REQUIRE(WriteFileAtomically(path, "nonsense\n").ok());
  CHECK(Prepare(path, {1})[0].algorithm == 1);
  const std::string text = *ReadWholeFile(path);
  CHECK_THAT(text, Catch::Contains("cublaslt 130100\n"));
  CHECK(Prepare(path, {2}, GemmTuning::kMeasure, 130200)[0].algorithm == 2);
  CHECK_THAT(*ReadWholeFile(path), Catch::Contains("cublaslt 130200\n"));
}

TEST_CASE("a rank with another library goes without the root's plans") {
  const std::vector<Seen> seen = Prepare("", {2, 2}, GemmTuning::kMeasure, 130200);
  CHECK(seen[0].algorithm == 2);
  CHECK(seen[1].algorithm == 0);
  CHECK(seen[1].error.empty());
}

TEST_CASE("nothing is measured unless it is asked for") {
  for (const GemmTuning tuning : {GemmTuning::kOff, GemmTuning::kHeuristic}) {
    const std::vector<Seen> seen = Prepare("", {2}, tuning);
    CHECK(seen[0].warm_ups == 0);
    CHECK(seen[0].algorithm == 0);
  }
}

TEST_CASE("plans that cannot be written end all ranks with code 7") {
  const std::vector<Seen> seen = Prepare("/proc/none/gemm_plans.txt", {0, 0});
  CHECK(seen[0].exit_code == 7);
  CHECK_THAT(seen[0].error, Catch::Contains("/proc/none"));
  CHECK(seen[1].exit_code == 7);
}

TEST_CASE("a translation run measures the products of its training steps before it trains") {
  const TemporaryFolder folder;
  proto::NmtConfig config;
  REQUIRE(
      LoadConfig({.files = {},
                  .overrides = {"model.hidden_size=16", "model.ffn_size=32", "model.num_heads=2",
                                "model.encoder_layers=1", "model.decoder_layers=1",
                                "trainer.precision=bf16", "trainer.micro_batch_tokens=64",
                                "trainer.tokens_per_batch=64", "kernels.gemm_tuning=measure"}},
                 config)
          .ok());
  Seq2SeqOptions options = ModelOptionsOf(config.model());
  options.vocab_size = 50;
  const Seq2SeqBatch batch = MicroBatchOf(config.trainer(), 1, {.source = 8.0, .target = 8.0});
  const MemoryPlan memory =
      PlanMemory(MemoryOptionsOf(config), CostsOf(options, batch), DeviceType::kCuda, 0);
  const auto run = [&](Communicator& comm) {
    Seq2SeqTransformer model(options);
    model.Allocate(kGpu, DType::kBFloat16, 1);
    const Status status = PrepareKernels(
        config.kernels(), folder.path(), kGpu, comm,
        WarmUpSteps(model, batch, kGpu,
                    WithRecompute(ContextOptionsOf(config.trainer(), 0), memory.recompute)));
    Stream stream(kGpu);
    double largest = 0.0;
    for (const float g : Download<float>(model.parameters().gradients(), stream)) {
      largest = std::max(largest, std::abs(static_cast<double>(g)));
    }
    return std::pair(std::string(status.message()), largest);
  };
  const auto [error, gradient] = testing::RunRanks(1, run)[0];
  CHECK(error.empty());
  CHECK(gradient == 0.0);
  const std::string text = *ReadWholeFile(folder.path() + "/gemm_plans.txt");
  for (const char* part : {"ta=1 tb=0 add=1", "epilogue=relu_bias", "epilogue=relu_gradient",
                           "epilogue=bias_gradient", "epilogue=bias "}) {
    INFO(part);
    CHECK_THAT(text, Catch::Contains(part));
  }
}

TEST_CASE("a classifier measures its products as a translation run does") {
  const TemporaryFolder folder;
  proto::ClassificationConfig config;
  REQUIRE(
      LoadConfig({.files = {},
                  .overrides = {"model.hidden_size=16", "model.ffn_size=32", "model.num_heads=2",
                                "model.num_layers=1", "model.vocab_size=50",
                                "model.activation=gelu_tanh", "trainer.precision=bf16",
                                "trainer.batch_size=8", "kernels.gemm_tuning=measure"}},
                 config)
          .ok());
  const BertBatch batch =
      MicroBatchOf(config.trainer(), 1, {.mean = 8.0, .deviation = 0.0, .longest = 8});
  const auto error = testing::RunRanks(1, [&](Communicator& comm) {
    BertClassifier model(ClassifierOptionsOf(config));
    model.Allocate(kGpu, DType::kBFloat16, 1);
    return std::string(
        PrepareKernels(config.kernels(), folder.path(), kGpu, comm,
                       WarmUpSteps(model, batch, kGpu, BertContextOf(config.trainer(), 1, 0)))
            .message());
  })[0];
  CHECK(error == "");
  const std::string text = *ReadWholeFile(folder.path() + "/gemm_plans.txt");
  for (const char* part : {"ta=1 tb=0 add=1", "epilogue=bias_gradient", "epilogue=bias "}) {
    INFO(part);
    CHECK_THAT(text, Catch::Contains(part));
  }
}

}  // namespace
}  // namespace dtrain
