// gemm_plan_test.cc - how products on a GPU find, measure and keep their plans; cuBLASLt emulated.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "dtrain/device/cuda/error.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/internal/gemm_plans.h"
#include "testing/catch.h"
#include "testing/host_executor/cublaslt.h"
#include "testing/linear_activation_case.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using host_executor::Cublas;
using host_executor::CublasProduct;
using host_executor::CublasRefusal;
using host_executor::CublasSettings;
using testing::Filled;
using testing::Random;
using testing::SameBits;
using testing::TestDevice;

// Long beside what the emulation itself takes; nobody waits for it.
constexpr double kSecond = 1.0;

// A thread without plans, and a library as it is by default.
struct Fresh {
  explicit Fresh(GemmTuning tuning) {
    Cublas() = CublasSettings();
    SetGemmPlans({});
    SetGemmTuning(tuning);
  }
  ~Fresh() {
    Cublas() = CublasSettings();
    SetGemmPlans({});
    SetGemmTuning(GemmTuning::kHeuristic);
  }
};

Tensor Multiply(int64_t rows, DType type = DType::kBFloat16) {
  Stream stream(TestDevice());
  const Tensor x = Random({rows, 40}, type, 1);
  const Tensor weight = Random({24, 40}, type, 2);
  Tensor y = Filled({rows, 24}, type, 0.0);
  Gemm(x, weight, {.transpose_b = true}, y, stream);
  return y;
}

// The third suggestion is the fastest.
double ThirdIsFastest(const CublasProduct& product) {
  return (product.algorithm == 2 ? 1.0 : 2.0) * kSecond;
}

TEST_CASE("without measuring a product takes the library's first suggestion, asked for once") {
  const Fresh fresh(GemmTuning::kHeuristic);
  Multiply(100);
  CHECK(Cublas().last.algorithm == 0);
  CHECK(Cublas().heuristics == 1);
  Multiply(100);
  Multiply(101);  // rounds to the same shape
  CHECK(Cublas().heuristics == 1);
  CHECK(Cublas().products == 3);
  CHECK(Cublas().last.columns == 101);
  Multiply(200);
  CHECK(Cublas().heuristics == 2);
  CHECK(CountGemmPlans() == 0);
}

TEST_CASE("what is measured is kept and used for all batches of its size") {
  const Fresh fresh(GemmTuning::kMeasure);
  Cublas().seconds = ThirdIsFastest;
  Multiply(100);
  CHECK(Cublas().last.algorithm == 0);
  {
    const MeasureGemms measure;
    Multiply(100);
  }
  CHECK(Cublas().last.algorithm == 2);
  CHECK(CountGemmPlans() == 1);
  const GemmPlan& plan = CurrentGemmPlans().begin()->second;
  CHECK(plan.fused);
  CHECK(plan.microseconds == Approx(1e6).epsilon(0.2));
  CHECK_THAT(plan.note, Catch::Contains("algorithm 2"));
  const int64_t asked = Cublas().heuristics;
  Multiply(104);
  CHECK(Cublas().last.algorithm == 2);
  CHECK(Cublas().heuristics == asked);
}

TEST_CASE("measured plans go through their text to another thread's products") {
  std::string text;
  {
    const Fresh fresh(GemmTuning::kMeasure);
    Cublas().seconds = ThirdIsFastest;
    const MeasureGemms measure;
    Multiply(64);
    text = PrintGemmPlans(TestDevice());
  }
  const Fresh fresh(GemmTuning::kMeasure);
  REQUIRE(*UseGemmPlans(text, "plans", TestDevice()));
  Multiply(64);
  CHECK(Cublas().last.algorithm == 2);
  CHECK(Cublas().heuristics == 0);
  SetGemmTuning(GemmTuning::kOff);  // plans are there but not wanted
  Multiply(64);
  CHECK(Cublas().last.algorithm == 0);
}

TEST_CASE("plans of another version of the library or another GPU are not used") {
  const Fresh fresh(GemmTuning::kMeasure);
  Cublas().seconds = ThirdIsFastest;
  {
    const MeasureGemms measure;
    Multiply(64);
  }
  const std::string text = PrintGemmPlans(TestDevice());
  Cublas().version = 130200;
  CHECK_FALSE(*UseGemmPlans(text, "plans", TestDevice()));
  CHECK(CountGemmPlans() == 0);
  Multiply(64);
  CHECK(Cublas().last.algorithm == 0);
  Cublas().version = 130100;
  std::string other = text;
  other.replace(other.find("host executor"), 13, "NVIDIA H200");
  CHECK_FALSE(*UseGemmPlans(other, "plans", TestDevice()));
  CHECK(*UseGemmPlans(text, "plans", TestDevice()));
  CHECK(CountGemmPlans() == 1);
}

TEST_CASE("a product that failed on the GPU is not tried another way") {
  const Fresh fresh(GemmTuning::kHeuristic);
  Cublas().refusal = CublasRefusal::kExecutionFailed;
  Cublas().refuses = [](const CublasProduct& product) { return product.algorithm == 0; };
  CHECK_THROWS_AS(Multiply(64), CudaError);
}

TEST_CASE("an algorithm that refuses to run is neither chosen nor a reason to fail") {
  const Fresh fresh(GemmTuning::kMeasure);
  Cublas().refusal = GENERATE(CublasRefusal::kNotSupported, CublasRefusal::kInternalError);
  Cublas().seconds = ThirdIsFastest;
  Cublas().refuses = [](const CublasProduct& product) { return product.algorithm == 2; };
  {
    const MeasureGemms measure;
    Multiply(64);
  }
  CHECK(Cublas().last.algorithm == 0);
  // A plan that stops working, for a batch just larger than the measured one say: a suggestion for
  // exactly this product steps in.
  Cublas().refuses = [](const CublasProduct& product) { return product.algorithm == 0; };
  const Tensor y = Multiply(63);
  CHECK(Cublas().last.algorithm == 1);
  CHECK(Cublas().last.columns == 63);
  Cublas().refuses = [](const CublasProduct&) { return true; };
  CHECK_THROWS_WITH(Multiply(63), Catch::Contains("cuBLASLt refuses this product"));
  Cublas().suggestions = [](const CublasProduct&) { return 0; };
  CHECK_THROWS_WITH(Multiply(4000), Catch::Contains("has no algorithm"));
  {
    const MeasureGemms measure;
    CHECK_THROWS_WITH(Multiply(4000), Catch::Contains("has no algorithm"));
  }
}

TEST_CASE("the same plans give the same bits, other plans need not") {
  const Fresh fresh(GemmTuning::kMeasure);
  const Tensor suggested = Multiply(50, DType::kFloat32);
  Cublas().seconds = ThirdIsFastest;
  {
    const MeasureGemms measure;
    Multiply(50, DType::kFloat32);
  }
  const Tensor measured = Multiply(50, DType::kFloat32);
  CHECK(SameBits(measured, Multiply(50, DType::kFloat32)));
  CHECK_FALSE(SameBits(measured, suggested));  // summed in another order
}

// ---- fused against separate --------------------------------------------------------------------

using testing::ErrorsOf;
using testing::LinearActivationCase;

LinearActivationCase FusibleCase(Activation activation, DType dtype) {
  return {.rows = 33,
          .in = 31,
          .out = 40,
          .next = 24,
          .dtype = dtype,
          .options = {.activation = activation}};
}

// Products with an epilogue other than the bias.
bool IsFused(const CublasProduct& product) { return product.epilogue > 1; }
void LetBeFaster(bool fused) {
  Cublas().seconds = [fused](const CublasProduct& product) {
    return (IsFused(product) == fused ? 1.0 : 5.0) * kSecond;
  };
}

// Epilogues that ran while a case ran, measured before.
struct Run {
  double error = 0.0;
  int64_t fused = 0, plain = 0;
};
Run MeasureAndRun(const LinearActivationCase& test) {
  {
    const MeasureGemms measure;
    ErrorsOf(test);
  }
  Run run;
  const auto seconds = Cublas().seconds;
  Cublas().seconds = [&](const CublasProduct& product) {
    ++(IsFused(product) ? run.fused : run.plain);
    return seconds(product);
  };
  run.error = ErrorsOf(test).largest();
  Cublas().seconds = seconds;
  return run;
}

TEST_CASE("an epilogue is used where it measures faster, its parts where they do, both right") {
  const auto activation = GENERATE(Activation::kRelu, Activation::kGeluTanh);
  const auto dtype = GENERATE(DType::kBFloat16, DType::kFloat16);
  LinearActivationCase test = FusibleCase(activation, dtype);
  test.bias_offset = GENERATE(0, 3);
  INFO(static_cast<int>(activation) << ' ' << Name(dtype) << ", bias at " << test.bias_offset);
  {
    const Fresh fresh(GemmTuning::kMeasure);
    LetBeFaster(true);
    const Run run = MeasureAndRun(test);
    // Forward and, but for float16, whose range bias gradients may leave, backward.
    const int64_t fused = dtype == DType::kFloat16 ? 1 : 2;
    CHECK(run.fused == fused);
    CHECK(run.plain == 2 - fused);
    CHECK(run.error <= 1.0);
  }
  const Fresh fresh(GemmTuning::kMeasure);
  LetBeFaster(false);
  const Run run = MeasureAndRun(test);
  CHECK(run.fused == 0);
  CHECK(run.plain == 2);
  CHECK(run.error <= 1.0);
  bool has_parts = false;
  for (const auto& [shape, plan] : CurrentGemmPlans()) has_parts |= !plan.fused;
  CHECK(has_parts);
}

TEST_CASE("no epilogue takes the place of another function") {
  const Fresh fresh(GemmTuning::kMeasure);
  LetBeFaster(true);
  for (const Activation activation : {Activation::kGeluErf, Activation::kTanh}) {
    const Run run = MeasureAndRun(FusibleCase(activation, DType::kBFloat16));
    CHECK(run.fused == 0);
    CHECK(run.error <= 1.0);
  }
  LinearActivationCase dropped = FusibleCase(Activation::kRelu, DType::kBFloat16);
  dropped.options.dropout = {.probability = 0.5F, .key = {1, 2, 3}};
  CHECK(MeasureAndRun(dropped).fused == 0);
  // Strides that the library forbids for what it writes beside the product.
  LinearActivationCase odd = FusibleCase(Activation::kGeluTanh, DType::kBFloat16);
  odd.out = 37;
  CHECK(MeasureAndRun(odd).fused == 0);
  // Computed again for backward, by our kernel: then forward too, but the gradient may be fused.
  LinearActivationCase repeated = FusibleCase(Activation::kGeluTanh, DType::kBFloat16);
  repeated.options.repeats = true;
  CHECK(MeasureAndRun(repeated).fused == 1);
}

TEST_CASE("an epilogue that the library does not have gives way to the parts") {
  const Fresh fresh(GemmTuning::kMeasure);
  LetBeFaster(true);
  Cublas().suggestions = [](const CublasProduct& product) { return IsFused(product) ? 0 : 1; };
  const Run run = MeasureAndRun(FusibleCase(Activation::kGeluTanh, DType::kBFloat16));
  CHECK(run.fused == 0);
  CHECK(run.error <= 1.0);
}

TEST_CASE("without measuring, of the epilogues the gradient of gelu alone is used on Hopper") {
  const auto fused = [](GemmTuning tuning, Activation activation) {
    const Fresh fresh(tuning);
    int64_t count = 0;
    Cublas().seconds = [&](const CublasProduct& product) {
      count += IsFused(product) ? 1 : 0;
      return 0.0;
    };
    CHECK(ErrorsOf(FusibleCase(activation, DType::kBFloat16)).largest() <= 1.0);
    return count;
  };
  CHECK(fused(GemmTuning::kHeuristic, Activation::kGeluTanh) == 1);
  CHECK(fused(GemmTuning::kHeuristic, Activation::kRelu) == 0);
  CHECK(fused(GemmTuning::kOff, Activation::kGeluTanh) == 0);
}

TEST_CASE("a weight gradient sums its bias gradient where that measures faster") {
  const auto dtype = GENERATE(DType::kBFloat16, DType::kFloat32);
  const bool is_fused = GENERATE(true, false);
  const Fresh fresh(GemmTuning::kMeasure);
  LetBeFaster(is_fused);
  Stream stream(TestDevice());
  const Tensor dy = Random({33, 24}, dtype, 1);
  const Tensor x = Random({33, 40}, dtype, 2);
  Tensor d_weight, d_bias;
  const auto run = [&] {
    d_weight = Filled({24, 40}, DType::kFloat32, 1.0);
    d_bias = Filled({24}, DType::kFloat32, 2.0);
    LinearBackwardParameters(dy, x, {}, d_weight, d_bias, stream);
  };
  {
    const MeasureGemms measure;
    run();
  }
  run();
  CHECK(IsFused(Cublas().last) == is_fused);
  const testing::Values sums = testing::ColumnSums(testing::ValuesOf(dy), 24);
  CHECK(testing::Difference(d_bias, testing::Plus(sums, testing::Values(24, 2.0))) <= 1e-5);
  Tensor plain = Filled({24, 40}, DType::kFloat32, 1.0);
  Gemm(dy, x, {.transpose_a = true, .accumulate = true}, plain, stream);
  CHECK(testing::Difference(d_weight, testing::ValuesOf(plain)) <= 1e-5);
}

}  // namespace
}  // namespace dtrain
