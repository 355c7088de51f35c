// gemm_tuning.cc - the plans of a thread, their form as text, and the choice by medians.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/gemm_tuning.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/ops/internal/gemm_plans.h"

namespace dtrain {
namespace {

constexpr std::string_view kTitle = "dtrain gemm plans";
// Of the text below; a file of another version is measured anew.
constexpr int kFormat = 1;
constexpr int kRounds = 5;
// What a later way must gain over an earlier one: less is noise.
constexpr double kMargin = 0.98;

struct State {
  GemmTuning tuning = GemmTuning::kHeuristic;
  GemmPlans plans;
  int generation = 0;
  int measuring = 0;
};
State& OfThread() {
  thread_local State state;
  return state;
}

constexpr std::string_view kEpilogueNames[] = {
    "none", "bias", "relu_bias", "gelu_bias", "relu_gradient", "gelu_gradient", "bias_gradient"};
constexpr std::pair<DType, std::string_view> kTypeNames[] = {
    {DType::kFloat32, "fp32"}, {DType::kBFloat16, "bf16"}, {DType::kFloat16, "fp16"}};

std::string_view TypeName(DType type) {
  const auto* const found = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                         [&](const auto& entry) { return entry.first == type; });
  return found->second;
}

int64_t RoundUp(int64_t extent) {
  if (extent <= 8) return 8;
  const int64_t step =
      std::max<int64_t>(8, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(extent))) / 8);
  return (extent + step - 1) / step * step;
}

// ---- text --------------------------------------------------------------------------------------

std::string PlanLine(const cuda::ProductShape& shape, const GemmPlan& plan) {
  std::string line = absl::StrFormat(
      "m=%d n=%d k=%d lda=%d ldb=%d ldc=%d ldaux=%d ta=%d tb=%d add=%d epilogue=%s in=%s out=%s "
      "align=%d,%d,%d,%d",
      shape.m, shape.n, shape.k, shape.a_stride, shape.b_stride, shape.c_stride, shape.aux_stride,
      shape.transpose_a, shape.transpose_b, shape.accumulate,
      kEpilogueNames[static_cast<size_t>(shape.epilogue)], TypeName(shape.type),
      TypeName(shape.c_type), shape.a_alignment, shape.b_alignment, shape.c_alignment,
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

// Reads "key=value" fields of one line in the order PlanLine() writes them; the first that is not
// as expected stays as the error.
class FieldReader {
 public:
  explicit FieldReader(std::string_view line)
      : fields_(absl::StrSplit(ToAbsl(line), ' ', absl::SkipEmpty())) {}

  std::string_view Text(std::string_view key) {
    const std::string_view field =
        at_ < fields_.size() ? std::string_view(fields_[at_]) : std::string_view();
    ++at_;
    if (field.size() > key.size() && field.starts_with(key) && field[key.size()] == '=') {
      return field.substr(key.size() + 1);
    }
    Fail(key);
    return {};
  }

  template <typename Number>
  Number Parse(std::string_view key, std::string_view text, int base = 10) {
    Number number{};
    std::from_chars_result result{};
    if constexpr (std::is_floating_point_v<Number>) {
      result = std::from_chars(text.data(), text.data() + text.size(), number);
    } else {
      result = std::from_chars(text.data(), text.data() + text.size(), number, base);
    }
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) Fail(key);
    return number;
  }
  int64_t Extent(std::string_view key, int64_t smallest) {
    const auto number = Parse<int64_t>(key, Text(key));
    if (number < smallest) Fail(key);
    return number;
  }
  bool Flag(std::string_view key) {
    const std::string_view text = Text(key);
    if (text != "0" && text != "1") Fail(key);
    return text == "1";
  }
  template <typename Names, typename NameOf>
  size_t OneOf(std::string_view key, const Names& names, const NameOf& name_of) {
    const std::string_view text = Text(key);
    for (size_t i = 0; i < std::size(names); ++i) {
      if (name_of(names[i]) == text) return i;
    }
    Fail(key);
    return 0;
  }
  // "a,b,c": exactly `count` numbers.
  template <typename Number>
  std::vector<Number> List(std::string_view key, std::string_view text, size_t count, int base) {
    std::vector<Number> numbers;
    for (const absl::string_view part : absl::StrSplit(ToAbsl(text), ',')) {
      numbers.push_back(Parse<Number>(key, ToStd(part), base));
    }
    if (numbers.size() != count) Fail(key);
    numbers.resize(count);
    return numbers;
  }
  void Fail(std::string_view key) {
    if (wrong_.empty()) wrong_ = key;
  }
  // The key of the first wrong field, or of one too many; empty where all is well.
  std::string wrong() const {
    if (!wrong_.empty()) return wrong_;
    return at_ < fields_.size() ? fields_[at_] : "";
  }

 private:
  std::vector<std::string> fields_;
  size_t at_ = 0;
  std::string wrong_;
};

// One line without its comment; the wrong field's name where there is one.
std::string ReadPlan(std::string_view line, cuda::ProductShape& shape, GemmPlan& plan) {
  FieldReader read(line);
  const auto same = [](std::string_view name) { return name; };
  const auto second = [](const auto& entry) { return entry.second; };
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
  shape.type = kTypeNames[read.OneOf("in", kTypeNames, second)].first;
  shape.c_type = kTypeNames[read.OneOf("out", kTypeNames, second)].first;
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
  return read.wrong();
}

// The value of a header line "name value", or an error.
absl::StatusOr<std::string> HeaderValue(const std::vector<absl::string_view>& lines, size_t number,
                                        std::string_view name, std::string_view path) {
  const std::string_view line = number < lines.size() ? ToStd(lines[number]) : std::string_view();
  if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ') {
    return std::string(line.substr(name.size() + 1));
  }
  return StorageError(absl::StrFormat("%s:%d: \"%s ...\" expected; delete the file to measure anew",
                                      path, number + 1, name));
}

}  // namespace

cuda::ProductShape PlanShape(const cuda::ProductShape& shape) {
  cuda::ProductShape rounded = shape;
  rounded.m = RoundUp(shape.m);
  rounded.n = RoundUp(shape.n);
  rounded.k = RoundUp(shape.k);
  // A matrix whose rows are full has no room for longer ones.
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

GemmPlatform GemmPlatformOf([[maybe_unused]] const Device& device) {
  GemmPlatform platform;
  if constexpr (kWithCuda) {
    platform.cublaslt_version = cuda::ProductLibraryVersion();
    platform.gpu = cuda::Properties(device).name;
  }
  return platform;
}

std::string PrintGemmPlans(const GemmPlanFile& file) {
  std::string text = absl::StrFormat(
      "%s %d\ncublaslt %d\ngpu %s\n"
      "# c[m,n] = a[m,k] b[k,n]; us: median; by: the library's words for its algorithm, or parts: "
      "a plain product and another kernel\n",
      kTitle, kFormat, file.platform.cublaslt_version, file.platform.gpu);
  for (const auto& [shape, plan] : file.plans) text += PlanLine(shape, plan);
  return text;
}

absl::StatusOr<GemmPlanFile> ParseGemmPlans(std::string_view text, std::string_view path) {
  const std::vector<absl::string_view> lines = absl::StrSplit(ToAbsl(text), '\n');
  DT_ASSIGN_OR_RETURN(const std::string format, HeaderValue(lines, 0, kTitle, path));
  if (format != std::to_string(kFormat)) {
    return StorageError(absl::StrFormat(
        "%s:1: plans of format %s, this program reads %d; delete the file to measure anew", path,
        format, kFormat));
  }
  GemmPlanFile file;
  DT_ASSIGN_OR_RETURN(const std::string version, HeaderValue(lines, 1, "cublaslt", path));
  DT_ASSIGN_OR_RETURN(file.platform.gpu, HeaderValue(lines, 2, "gpu", path));
  const auto parsed = std::from_chars(version.data(), version.data() + version.size(),
                                      file.platform.cublaslt_version);
  if (parsed.ec != std::errc() || parsed.ptr != version.data() + version.size()) {
    return StorageError(absl::StrFormat("%s:2: cublaslt %s is no version", path, version));
  }
  for (size_t i = 3; i < lines.size(); ++i) {
    const std::string_view line = ToStd(lines[i]);
    const size_t comment = line.find('#');
    const std::string_view fields = line.substr(0, comment);
    if (fields.find_first_not_of(' ') == std::string_view::npos) continue;
    cuda::ProductShape shape;
    GemmPlan plan;
    const std::string wrong = ReadPlan(fields, shape, plan);
    if (!wrong.empty()) {
      return StorageError(absl::StrFormat(
          "%s:%d: the field \"%s\" is wrong; delete the file to measure anew", path, i + 1, wrong));
    }
    if (comment != std::string_view::npos) {
      plan.note = line.substr(std::min(line.size(), comment + 2));
    }
    file.plans.insert_or_assign(shape, std::move(plan));
  }
  return file;
}

GemmTuning CurrentGemmTuning() { return OfThread().tuning; }

void SetGemmTuning(GemmTuning tuning) {
  OfThread().tuning = tuning;
  ++OfThread().generation;
}

const GemmPlans& CurrentGemmPlans() { return OfThread().plans; }

void SetGemmPlans(GemmPlans plans) {
  OfThread().plans = std::move(plans);
  ++OfThread().generation;
}

void AddGemmPlan(const cuda::ProductShape& shape, GemmPlan plan) {
  OfThread().plans.insert_or_assign(shape, std::move(plan));
}

int GemmPlansGeneration() { return OfThread().generation; }

MeasureGemms::MeasureGemms() { ++OfThread().measuring; }
MeasureGemms::~MeasureGemms() { --OfThread().measuring; }

bool MeasuresGemms() {
  const State& state = OfThread();
  return state.measuring > 0 && state.tuning == GemmTuning::kMeasure;
}

size_t CountGemmPlans() { return CurrentGemmPlans().size(); }

std::string PrintGemmPlans(const Device& device) {
  return PrintGemmPlans({GemmPlatformOf(device), CurrentGemmPlans()});
}

absl::StatusOr<bool> UseGemmPlans(std::string_view text, std::string_view path,
                                  const Device& device) {
  DT_ASSIGN_OR_RETURN(GemmPlanFile file, ParseGemmPlans(text, path));
  const bool fits = file.platform == GemmPlatformOf(device);
  SetGemmPlans(fits ? std::move(file.plans) : GemmPlans());
  return fits;
}

std::optional<FastestWay> ChooseFastest(
    size_t count, const std::function<std::optional<double>(size_t)>& seconds_of) {
  std::vector<std::vector<double>> times(count);
  std::vector<bool> runs(count, true);
  // The first round loads kernels and is not counted.
  for (int round = 0; round <= kRounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      if (!runs[i]) continue;
      const std::optional<double> seconds = seconds_of(i);
      runs[i] = seconds.has_value();
      if (seconds.has_value() && round > 0) times[i].push_back(*seconds);
    }
  }
  std::optional<FastestWay> fastest;
  for (size_t i = 0; i < count; ++i) {
    if (!runs[i]) continue;
    const auto middle = times[i].begin() + kRounds / 2;
    std::nth_element(times[i].begin(), middle, times[i].end());
    if (!fastest.has_value() || *middle < kMargin * fastest->seconds) fastest = {i, *middle};
  }
  return fastest;
}

}  // namespace dtrain
