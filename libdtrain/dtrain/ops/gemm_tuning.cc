// gemm_tuning.cc - the matrix product plans of a thread and their text format.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/gemm_tuning.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/ops/internal/gemm_plans.h"

namespace dtrain {
namespace {

constexpr PlanFormat kGemmPlanFormat = {
    .title = "dtrain gemm plans",
    .version = 1,
    .library = "cublaslt",
    .comment =
        "c[m,n] = a[m,k] b[k,n]; us: median microseconds; by: the "
        "library's own code for its algorithm, or "
        "parts: a plain product followed by another kernel"};

struct TuningState {
  GemmTuning tuning = GemmTuning::kHeuristic;
  GemmPlans plans;
  int generation = 0;
  int measuring = 0;
};
TuningState& TuningOfThread() {
  thread_local TuningState state;
  return state;
}

constexpr std::string_view kEpilogueNames[] = {
    "none", "bias", "relu_bias", "gelu_bias", "relu_gradient", "gelu_gradient", "bias_gradient"};

int64_t RoundExtent(int64_t extent) {
  if (extent <= 8) return 8;
  const int64_t step =
      std::max<int64_t>(8, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(extent))) / 8);
  return (extent + step - 1) / step * step;
}

// ---- text --------------------------------------------------------------------------------------

std::string GemmPlanLine(const cuda::ProductShape& shape, const GemmPlan& plan) {
  std::string line = absl::StrFormat(
      "m=%d n=%d k=%d lda=%d ldb=%d ldc=%d ldaux=%d ta=%d tb=%d add=%d epilogue=%s in=%s out=%s "
      "align=%d,%d,%d,%d",
      shape.m, shape.n, shape.k, shape.a_stride, shape.b_stride, shape.c_stride, shape.aux_stride,
      shape.transpose_a, shape.transpose_b, shape.accumulate,
      kEpilogueNames[static_cast<size_t>(shape.epilogue)], PlanTypeName(shape.type),
      PlanTypeName(shape.c_type), shape.a_alignment, shape.b_alignment, shape.c_alignment,
      shape.vector_alignment);
  line += absl::StrFormat(" us=%.2f ws=%d by=%s", plan.microseconds, plan.algorithm.workspace_bytes,
                          plan.fused ? "words" : "parts");
  if (plan.fused) {
    for (size_t i = 0; i < plan.algorithm.words.size(); ++i) {
      line += absl::StrFormat("%c%x", i == 0 ? ':' : ',', plan.algorithm.words[i]);
    }
  }
  return line + (plan.note.empty() ? "" : " # " + plan.note) + "\n";
}

void ReadGemmPlan(PlanFields& read, cuda::ProductShape& shape, GemmPlan& plan) {
  const auto same = [](std::string_view name) { return name; };
  shape.m = read.Extent("m", 1);
  shape.n = read.Extent("n", 1);
  shape.k = read.Extent("k", 1);
  shape.a_stride = read.Extent("lda", 1);
  shape.b_stride = read.Extent("ldb", 1);
  shape.c_stride = read.Extent("ldc", 1);
  shape.aux_stride = read.Extent("ldaux", 0);
  shape.transpose_a = read.Flag("ta");
  shape.transpose_b = read.Flag("tb");
  shape.accumulate = read.Flag("add");
  shape.epilogue = static_cast<cuda::Epilogue>(read.OneOf("epilogue", kEpilogueNames, same));
  shape.type = read.Type("in");
  shape.c_type = read.Type("out");
  const std::vector<int> alignments = read.List<int>("align", read.Text("align"), 4, 10);
  shape.a_alignment = alignments[0];
  shape.b_alignment = alignments[1];
  shape.c_alignment = alignments[2];
  shape.vector_alignment = alignments[3];
  plan.microseconds = read.Parse<double>("us", read.Text("us"));
  plan.algorithm.workspace_bytes = static_cast<size_t>(read.Extent("ws", 0));
  const std::string_view by = read.Text("by");
  plan.fused = by.starts_with("words:");
  if (plan.fused) {
    const std::vector<uint64_t> words =
        read.List<uint64_t>("by", by.substr(6), plan.algorithm.words.size(), 16);
    std::copy(words.begin(), words.end(), plan.algorithm.words.begin());
  } else if (by != "parts") {
    read.Fail("by");
  }
}

}  // namespace

cuda::ProductShape PlanShape(const cuda::ProductShape& shape) {
  cuda::ProductShape rounded = shape;
  rounded.m = RoundExtent(shape.m);
  rounded.n = RoundExtent(shape.n);
  rounded.k = RoundExtent(shape.k);
  // A row cannot become longer than its stride.
  const auto within = [](int64_t& extent, int64_t given, int64_t stride) {
    extent = std::max(given, std::min(extent, stride));
  };
  within(rounded.n, shape.n, shape.c_stride);
  within(shape.transpose_a ? rounded.m : rounded.k, shape.transpose_a ? shape.m : shape.k,
         shape.a_stride);
  within(shape.transpose_b ? rounded.k : rounded.n, shape.transpose_b ? shape.k : shape.n,
         shape.b_stride);
  if (shape.aux_stride > 0) within(rounded.n, shape.n, shape.aux_stride);
  return rounded;
}

PlanPlatform GemmPlatformOf([[maybe_unused]] const Device& device) {
  PlanPlatform platform;
  if constexpr (kWithCuda) {
    platform.library_version = cuda::ProductLibraryVersion();
    platform.gpu = cuda::Properties(device).name;
  }
  return platform;
}

std::string PrintGemmPlans(const GemmPlanFile& file) {
  std::string text = PlanTextHeader(kGemmPlanFormat, file.platform);
  for (const auto& [shape, plan] : file.plans) text += GemmPlanLine(shape, plan);
  return text;
}

StatusOr<GemmPlanFile> ParseGemmPlans(std::string_view text, std::string_view path) {
  GemmPlanFile file;
  const auto read = [&](PlanFields& fields, std::string note) {
    cuda::ProductShape shape;
    GemmPlan plan;
    ReadGemmPlan(fields, shape, plan);
    plan.note = std::move(note);
    file.plans.insert_or_assign(shape, std::move(plan));
  };
  DT_ASSIGN_OR_RETURN(file.platform, ParsePlanText(kGemmPlanFormat, text, path, read));
  return file;
}

GemmTuning CurrentGemmTuning() { return TuningOfThread().tuning; }

void SetGemmTuning(GemmTuning tuning) {
  TuningOfThread().tuning = tuning;
  ++TuningOfThread().generation;
}

const GemmPlans& CurrentGemmPlans() { return TuningOfThread().plans; }

void SetGemmPlans(GemmPlans plans) {
  TuningOfThread().plans = std::move(plans);
  ++TuningOfThread().generation;
}

void AddGemmPlan(const cuda::ProductShape& shape, GemmPlan plan) {
  TuningOfThread().plans.insert_or_assign(shape, std::move(plan));
}

int GemmPlansGeneration() { return TuningOfThread().generation; }

MeasureGemms::MeasureGemms() { ++TuningOfThread().measuring; }
MeasureGemms::~MeasureGemms() { --TuningOfThread().measuring; }

bool MeasuresGemms() {
  const TuningState& state = TuningOfThread();
  return state.measuring > 0 && state.tuning == GemmTuning::kMeasure;
}

size_t CountGemmPlans() { return CurrentGemmPlans().size(); }

std::string PrintGemmPlans(const Device& device) {
  return PrintGemmPlans({GemmPlatformOf(device), CurrentGemmPlans()});
}

StatusOr<bool> UseGemmPlans(std::string_view text, std::string_view path, const Device& device) {
  DT_ASSIGN_OR_RETURN(GemmPlanFile file, ParseGemmPlans(text, path));
  const bool fits = file.platform == GemmPlatformOf(device);
  SetGemmPlans(fits ? std::move(file.plans) : GemmPlans());
  return fits;
}

}  // namespace dtrain
