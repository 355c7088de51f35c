// fused_attention_test.cc - attention by an emulated cuDNN: tensors, graphs, the choice.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/fused_attention.h"

#include <string>
#include <vector>

#include "dtrain/device/cuda/error.h"
#include "dtrain/ops/attention.h"
#include "dtrain/ops/internal/attention_plans.h"
#include "testing/attention_case.h"
#include "testing/catch.h"
#include "testing/host_executor/cudnn.h"

namespace dtrain {
namespace {

using namespace testing;
using Catch::Generators::from_range;
using cuda::FusedAttentionShape;
using host_executor::Cudnn;
using host_executor::CudnnSettings;

// Long beside what our kernels take on the emulated GPU; nobody waits for it.
constexpr double kSlow = 1e6;

// A thread without plans, and a library as it is by default.
struct Fresh {
  explicit Fresh(AttentionEngine engine) {
    Cudnn() = CudnnSettings();
    SetAttentionPlans({});
    SetAttentionEngine(engine);
  }
  ~Fresh() {
    Cudnn() = CudnnSettings();
    SetAttentionPlans({});
    SetAttentionEngine(AttentionEngine::kNative);
  }
};

double ErrorOf(const Tensor& actual, const Values& expected) {
  return RelativeError<double>(ValuesOf(actual), expected);
}

std::vector<AttentionCase> Cases() {
  return {{"one token", {1}, {1}, 2, 16},
          {"self, odd lengths", {31, 33, 1}, {31, 33, 1}, 2, 32},
          {"self, causal", {65, 1, 12}, {65, 1, 12}, 2, 16, true},
          {"cross, own scale", {5, 33, 1, 8, 2}, {40, 7, 70, 1, 3}, 1, 64, false, 0.0F, 0.3F},
          {"head size 40, rows apart", {17, 9}, {9, 20}, 3, 40, false, 0.0F, 0.0F, 8}};
}

TEST_CASE("cuDNN is given what it needs to compute the reference's attention and gradients") {
  const Fresh fresh(AttentionEngine::kCudnn);
  const DType dtype = GENERATE(DType::kBFloat16, DType::kFloat16);
  for (const AttentionCase& test : Cases()) {
    INFO(test.name << ", " << Name(dtype));
    const int64_t before = Cudnn().runs;
    AttentionFixture x(test, dtype, 1.0);
    x.Forward();
    const AttentionResult expected = ReferenceAttention(x.problem);
    CHECK(ErrorOf(x.out, expected.out) <= ToleranceOf(dtype));
    CHECK(ErrorOf(x.log_sum_exp, expected.log_sum_exp) <= ToleranceOf(DType::kFloat32));
    x.Backward();
    REQUIRE(Cudnn().runs == before + 2);
    const auto gradients = ReferenceAttentionBackward(x.problem, ValuesOf(x.d_out));
    CHECK(ErrorOf(x.dv, gradients.dv) <= ToleranceOf(dtype));
    if (test.name == "one token") continue;  // the others are 0 but for out's rounding
    CHECK(ErrorOf(x.dq, gradients.dq) <= ToleranceOf(dtype));
    CHECK(ErrorOf(x.dk, gradients.dk) <= ToleranceOf(dtype));
    // What lies between the gradients' rows is somebody else's.
    CHECK(ValueAt(x.dq_store, x.hidden) == 77.0);
    CHECK(ValueAt(x.dkv_store, x.hidden - 1) == 77.0);
  }
}

TEST_CASE("either engine's backward takes the other's statistics") {
  const Fresh fresh(AttentionEngine::kNative);
  const bool cudnn_first = GENERATE(false, true);
  AttentionFixture x({"", {33, 7}, {33, 7}, 2, 64, true}, DType::kFloat16, 1.0);
  SetAttentionEngine(cudnn_first ? AttentionEngine::kCudnn : AttentionEngine::kNative);
  x.Forward();
  SetAttentionEngine(cudnn_first ? AttentionEngine::kNative : AttentionEngine::kCudnn);
  x.Backward();
  CHECK(Cudnn().runs == 1);
  const auto gradients = ReferenceAttentionBackward(x.problem, ValuesOf(x.d_out));
  CHECK(ErrorOf(x.dq, gradients.dq) <= ToleranceOf(DType::kFloat16));
  CHECK(ErrorOf(x.dk, gradients.dk) <= ToleranceOf(DType::kFloat16));
}

TEST_CASE("batches of about the same size share a graph, which has room for all of them") {
  const Fresh fresh(AttentionEngine::kCudnn);
  AttentionFixture({"", {31, 7, 20}, {31, 7, 20}, 1, 16}, DType::kBFloat16).Forward();
  CHECK(Cudnn().last.sequences == 4);
  CHECK(Cudnn().last.max_queries == 64);
  CHECK(Cudnn().last.query_tokens == 64);
  const int64_t graphs = Cudnn().graphs;
  AttentionFixture({"", {40, 1, 2, 3}, {40, 1, 2, 3}, 1, 16}, DType::kBFloat16).Forward();
  CHECK(Cudnn().graphs == graphs);
  AttentionFixture({"", {65}, {40}, 1, 16}, DType::kBFloat16).Forward();
  CHECK(Cudnn().graphs == graphs + 1);
  CHECK(Cudnn().last.sequences == 1);
  CHECK(Cudnn().last.max_queries == 128);
  CHECK(Cudnn().last.max_keys == 64);
  CHECK(Cudnn().last.key_tokens == 64);
}

TEST_CASE("a workspace lies beside the offsets, however large it is") {
  const Fresh fresh(AttentionEngine::kCudnn);
  Cudnn().workspace_bytes = GENERATE(size_t{0}, size_t{100}, size_t{1} << 20);
  // A shape of its own for each: graphs are kept.
  const auto heads = static_cast<int>(3 + Cudnn().workspace_bytes % 7);
  AttentionFixture x({"", {9, 3}, {4, 30}, heads, 8}, DType::kFloat16, 1.0);
  x.Forward();
  CHECK(ErrorOf(x.out, ReferenceAttention(x.problem).out) <= ToleranceOf(DType::kFloat16));
}

TEST_CASE("what cuDNN does not take stays with our kernels") {
  const Fresh fresh(AttentionEngine::kCudnn);
  struct Native {
    AttentionCase test;
    DType dtype = DType::kFloat16;
  };
  const std::vector<Native> natives = {
      {{"fp32", {9}, {9}, 2, 16}, DType::kFloat32},
      {{"dropout", {9}, {9}, 2, 16, false, 0.1F}},
      {{"odd head size", {9}, {9}, 2, 12}},
      {{"large heads", {9}, {9}, 1, 136}},
      {{"rows that are not aligned", {9}, {9}, 1, 16, false, 0.0F, 0.0F, 3}},
      {{"a negative scale", {9}, {9}, 1, 16, false, 0.0F, -0.3F}},
      {{"a window", {9}, {9}, 2, 16, false, 0.0F, 0.0F, 0, 3}},
      {{"a sequence without queries", {4, 0}, {4, 5}, 2, 16}}};
  for (const auto& [test, dtype] : natives) {
    INFO(test.name);
    AttentionFixture x(test, dtype, 1.0);
    x.Forward();
    x.Backward();
    CHECK(ErrorOf(x.out, ReferenceAttention(x.problem).out) <= ToleranceOf(dtype));
  }
  CHECK(Cudnn().runs == 0);
  Cudnn().supports = [](const FusedAttentionShape& shape) { return !shape.backward; };
  AttentionFixture x({"", {9, 2}, {9, 2}, 5, 16}, DType::kFloat16, 1.0);
  x.Forward();
  x.Backward();
  CHECK(Cudnn().runs == 1);
  const auto gradients = ReferenceAttentionBackward(x.problem, ValuesOf(x.d_out));
  CHECK(ErrorOf(x.dv, gradients.dv) <= ToleranceOf(DType::kFloat16));
}

TEST_CASE("auto takes cuDNN where it was measured to be faster, and measures only when told to") {
  const Fresh fresh(AttentionEngine::kAuto);
  Cudnn().seconds = [](const FusedAttentionShape& shape) { return shape.backward ? kSlow : 0.0; };
  // On the emulated GPU our kernels take the time they take; cuDNN's clock stands still.
  const AttentionCase test{"", {20, 3}, {20, 3}, 2, 16};
  AttentionFixture x(test, DType::kBFloat16, 1.0);
  x.Forward();
  CHECK(Cudnn().runs == 0);
  CHECK(CountAttentionPlans() == 0);
  {
    const MeasureAttention measure;
    x.Forward();
    x.Backward();
  }
  REQUIRE(CountAttentionPlans() == 2);
  CHECK(ErrorOf(x.out, ReferenceAttention(x.problem).out) <= ToleranceOf(DType::kBFloat16));
  const auto gradients = ReferenceAttentionBackward(x.problem, ValuesOf(x.d_out));
  CHECK(ErrorOf(x.dq, gradients.dq) <= ToleranceOf(DType::kBFloat16));
  for (const auto& [shape, plan] : CurrentAttentionPlans()) CHECK(plan.cudnn != shape.backward);
  const int64_t before = Cudnn().runs;
  // More sequences of other lengths that round to the same.
  AttentionFixture other({"", {50, 1, 64}, {50, 1, 64}, 2, 16}, DType::kBFloat16);
  other.Forward();
  other.Backward();
  CHECK(Cudnn().runs == before + 1);
}

TEST_CASE("where cuDNN has no kernel our own is the plan") {
  const Fresh fresh(AttentionEngine::kAuto);
  Cudnn().supports = [](const FusedAttentionShape&) { return false; };
  const MeasureAttention measure;
  AttentionFixture({"", {20, 3}, {20, 3}, 6, 16}, DType::kBFloat16).Forward();
  REQUIRE(CountAttentionPlans() == 1);
  CHECK_FALSE(CurrentAttentionPlans().begin()->second.cudnn);
}

TEST_CASE("attention plans survive the way through their text") {
  const Fresh fresh(AttentionEngine::kAuto);
  const AttentionPlanShape shape{.max_queries = 64,
                                 .max_keys = 128,
                                 .num_heads = 8,
                                 .head_dim = 64,
                                 .causal = true,
                                 .backward = true,
                                 .type = DType::kFloat16};
  AddAttentionPlan(shape, {.cudnn = true, .microseconds = 12.5});
  AttentionPlanShape second = shape;
  second.causal = second.backward = false;
  AddAttentionPlan(second, {.cudnn = false, .microseconds = 7.25});
  const std::string text = PrintAttentionPlans(TestDevice());
  CHECK_THAT(text, Catch::StartsWith("dtrain attention plans 1\ncudnn 91900\ngpu host executor\n"));
  SetAttentionPlans({});
  REQUIRE(*UseAttentionPlans(text, "plans.txt", TestDevice()));
  REQUIRE(CountAttentionPlans() == 2);
  CHECK(CurrentAttentionPlans().at(shape).cudnn);
  CHECK(CurrentAttentionPlans().at(shape).microseconds == 12.5);
  CHECK_FALSE(CurrentAttentionPlans().at(second).cudnn);

  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return std::string(UseAttentionPlans(changed, "plans.txt", TestDevice()).status().message());
  };
  CHECK_THAT(error("attention plans 1", "attention plans 9"), Catch::Contains("plans.txt:1: "));
  CHECK_THAT(error("dtrain attention", "dtrain gemm"), Catch::Contains("plans.txt:1: "));
  CHECK_THAT(error("cudnn 91900", "cudnn x"),
             Catch::Contains("plans.txt:2: \"cudnn x\" is not a version number"));
  CHECK_THAT(error("heads=8", "heads=0"), Catch::Contains("plans.txt:5: the field \"heads\""));
  CHECK_THAT(error("type=fp16", "type=int8"), Catch::Contains("\"type\""));
  CHECK_THAT(error("by=cudnn", "by=chance"), Catch::Contains("\"by\""));
  Cudnn().version = 92000;
  CHECK_FALSE(*UseAttentionPlans(text, "plans.txt", TestDevice()));
  CHECK(CountAttentionPlans() == 0);
}

TEST_CASE("a cuDNN that cannot be loaded is an error that says so") {
  const Fresh fresh(AttentionEngine::kCudnn);
  Cudnn().missing = "cuDNN cannot be loaded";
  CHECK(WhyNoCudnn() == "cuDNN cannot be loaded");
  AttentionFixture x({"", {20, 3}, {20, 3}, 7, 16}, DType::kBFloat16);
  CHECK_THROWS_AS(x.Forward(), CudaError);
}

}  // namespace
}  // namespace dtrain
