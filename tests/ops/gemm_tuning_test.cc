// gemm_tuning_test.cc - the choice among ways to multiply, and its file, without a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/gemm_tuning.h"

#include <string>
#include <vector>

#include "dtrain/ops/internal/autotune.h"
#include "dtrain/ops/internal/gemm_plans.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using cuda::Epilogue;
using cuda::ProductShape;

ProductShape SomeShape() {
  return {.m = 4096,
          .n = 2048,
          .k = 512,
          .a_stride = 512,
          .b_stride = 512,
          .c_stride = 2048,
          .aux_stride = 2048,
          .transpose_b = true,
          .epilogue = Epilogue::kGeluBias,
          .type = DType::kBFloat16,
          .c_type = DType::kBFloat16,
          .vector_alignment = 8};
}

GemmPlanFile SomeFile() {
  GemmPlanFile file{.platform = {.library_version = 130100, .gpu = "NVIDIA H200"}, .plans = {}};
  file.plans[SomeShape()] = {
      .fused = true,
      .algorithm = {.words = {66, 0xffffffffffffffff, 3, 4, 5, 6, 7, 0}, .workspace_bytes = 4096},
      .microseconds = 48.25,
      .note = "algorithm 66, tile 20"};
  ProductShape other = SomeShape();
  other.transpose_a = other.accumulate = true;
  other.epilogue = Epilogue::kBiasGradient;
  other.c_type = DType::kFloat32;
  other.aux_stride = 0;
  file.plans[other] = {.fused = false, .microseconds = 12.5};
  return file;
}

TEST_CASE("plans survive the way through their text") {
  const GemmPlanFile file = SomeFile();
  const std::string text = PrintGemmPlans(file);
  const StatusOr<GemmPlanFile> read = ParseGemmPlans(text, "plans.txt");
  INFO(text << read.status().message());
  REQUIRE(read.ok());
  CHECK(read->platform == file.platform);
  REQUIRE(read->plans.size() == file.plans.size());
  for (const auto& [shape, plan] : file.plans) {
    REQUIRE(read->plans.contains(shape));
    const GemmPlan& again = read->plans.at(shape);
    CHECK(again.fused == plan.fused);
    CHECK(again.algorithm == plan.algorithm);
    CHECK(again.microseconds == plan.microseconds);
    CHECK(again.note == plan.note);
  }
  CHECK(PrintGemmPlans(*read) == text);
  CHECK_THAT(text, Catch::StartsWith("dtrain gemm plans 1\ncublaslt 130100\ngpu NVIDIA H200\n"));
  CHECK_THAT(text, Catch::Contains("m=4096 n=2048 k=512 ") && Catch::Contains("us=48.25 ") &&
                       Catch::Contains("# algorithm 66, tile 20\n"));
}

TEST_CASE("a damaged plan file is refused with path, line and field") {
  const std::string good = PrintGemmPlans(SomeFile());
  const auto message = [](const std::string& text) {
    const StatusOr<GemmPlanFile> read = ParseGemmPlans(text, "plans.txt");
    if (read.ok()) return std::string();
    CHECK(read.status().code() == ExitCode::kStorage);
    return std::string(read.status().message());
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return message(text.replace(at, from.size(), to));
  };
  REQUIRE(message(good).empty());
  CHECK_THAT(message(""), Catch::StartsWith("plans.txt:1: expected \"dtrain gemm plans ...\""));
  CHECK_THAT(with("plans 1", "plans 2"),
             Catch::Contains("the file has format 2, but this program reads format 1"));
  CHECK_THAT(with("cublaslt 130100", "cublaslt x"), Catch::Contains("plans.txt:2: \"cublaslt x\""));
  CHECK_THAT(with("gpu ", "cpu "), Catch::StartsWith("plans.txt:3: expected \"gpu ...\""));
  CHECK_THAT(with("m=4096", "m=many"), Catch::Contains("plans.txt:5: the field \"m\" is wrong"));
  CHECK_THAT(with("m=4096", "m=0"), Catch::Contains("\"m\""));
  CHECK_THAT(with("ta=0", "ta=2"), Catch::Contains("\"ta\""));
  CHECK_THAT(with("epilogue=gelu_bias", "epilogue=swish"), Catch::Contains("\"epilogue\""));
  CHECK_THAT(with("in=bf16", "in=fp8"), Catch::Contains("\"in\""));
  CHECK_THAT(with("align=16,16,16,8", "align=16,16,16"), Catch::Contains("\"align\""));
  CHECK_THAT(with("words:42,", "words:"), Catch::Contains("\"by\""));
  CHECK_THAT(with("words:42,", "words:4g,"), Catch::Contains("\"by\""));
  CHECK_THAT(with("by=parts", "by=magic"), Catch::Contains("\"by\""));
  CHECK_THAT(with("ws=4096", "ws=-1"), Catch::Contains("\"ws\""));
  CHECK_THAT(with(" us=48.25", ""), Catch::Contains("\"us\""));
  CHECK_THAT(with("by=parts", "by=parts more"), Catch::Contains("\"more\""));
}

TEST_CASE("the fastest way is that of the smallest median, and none that fails") {
  // Each way's first run is not counted; then come two series of five. Way 1 is fastest but for one
  // slow run in each. Way 2 is faster in the first series alone, way 3 too slow for the second.
  const std::vector<std::vector<double>> seconds = {{9, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48},
                                                    {9, 45, 90, 46, 45, 45, 45, 45, 45, 90, 46},
                                                    {9, 60, 44, 44, 44, 44, 48, 48, 48, 48, 48},
                                                    {9, 51, 51, 51, 51, 51}};
  std::vector<size_t> round(6);
  std::vector<size_t> order;
  const auto chosen = ChooseFastest(6, [&](size_t i) -> std::optional<double> {
    order.push_back(i);
    const size_t now = round[i]++;
    if (i == 4) return now < 2 ? std::optional(30.0) : std::nullopt;  // it breaks
    if (i == 5) return 101.0;                                         // far too slow
    return seconds[i][now];
  });
  REQUIRE(chosen.has_value());
  CHECK(chosen->index == 1);
  CHECK(chosen->seconds == 45);
  // The broken way and the slow ones are not tried again.
  CHECK(round == std::vector<size_t>{11, 11, 11, 6, 3, 2});
  // Rounds have different orders, always the same ones.
  const std::vector<size_t> first(order.begin(), order.begin() + 6);
  CHECK(first != std::vector<size_t>(order.begin() + 6, order.begin() + 12));
  CHECK_FALSE(ChooseFastest(2, [](size_t) { return std::optional<double>(); }).has_value());
  CHECK_FALSE(ChooseFastest(0, [](size_t) { return std::optional<double>(1); }).has_value());
}

TEST_CASE("ways within one percent are one, and the earlier stays") {
  const auto first_of = [](double a, double b) {
    return ChooseFastest(2, [&](size_t i) { return std::optional(i == 0 ? a : b); })->index;
  };
  CHECK(first_of(100, 99.5) == 0);
  CHECK(first_of(100, 98) == 1);
  CHECK(first_of(98, 100) == 0);
}

TEST_CASE("batches of nearly the same size share a plan") {
  const auto tokens = [](int64_t count) {
    ProductShape shape = SomeShape();
    shape.m = count;
    return PlanShape(shape).m;
  };
  CHECK(tokens(4096) == 4096);
  CHECK(tokens(4097) == 4608);
  CHECK(tokens(4608) == 4608);
  CHECK(tokens(3) == 8);
  CHECK(tokens(61) == 64);
  // Extents that fill their rows cannot grow.
  ProductShape odd = SomeShape();
  odd.n = odd.c_stride = odd.aux_stride = 2001;
  odd.k = odd.a_stride = odd.b_stride = 501;
  CHECK(PlanShape(odd).n == 2001);
  CHECK(PlanShape(odd).k == 501);
  // Of a weight gradient the summed extent is the tokens.
  const ProductShape gradient = {.m = 512,
                                 .n = 2048,
                                 .k = 4097,
                                 .a_stride = 512,
                                 .b_stride = 2048,
                                 .c_stride = 2048,
                                 .transpose_a = true};
  CHECK(PlanShape(gradient).k == 4608);
  CHECK(PlanShape(gradient).m == 512);
}

}  // namespace
}  // namespace dtrain
