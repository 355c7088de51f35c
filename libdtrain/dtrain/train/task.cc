// task.cc - metrics by name, and what a task's parameters have to be.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/task.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/check.h"

namespace dtrain {

bool EvaluationResult::Has(const std::string& name) const {
  return std::any_of(metrics.begin(), metrics.end(),
                     [&](const auto& entry) { return entry.first == name; });
}

double EvaluationResult::Metric(const std::string& name) const {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

bool SmallerIsBetter(const std::string& metric) {
  constexpr std::array<std::string_view, 15> kErrors = {
      "loss",   "nll", "ppl", "perplexity", "entropy", "bits", "err", "error",
      "errors", "wer", "cer", "ter",        "mse",     "rmse", "mae"};
  // Without the name of a dev set in front.
  const std::string name = absl::AsciiStrToLower(metric.substr(metric.rfind('/') + 1));
  const std::vector<std::string> words = absl::StrSplit(name, absl::ByAnyChar("_- ."));
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(kErrors.begin(), kErrors.end(), word) != kErrors.end();
  });
}

double EpochsOf(const TrainingTask& task) {
  const DataPosition position = task.position();
  const int64_t samples = task.epoch().samples;
  const double part =
      samples > 0 ? static_cast<double>(position.sample) / static_cast<double>(samples) : 0.0;
  return static_cast<double>(position.epoch) + part;
}

void CheckComputeType(TrainingTask& task, DType compute_type) {
  task.parameters().CheckAllocated();
  const DType ours = task.parameters().compute_type();
  DT_CHECK(ours == compute_type)
      << "the parameters were allocated for " << Name(ours) << ", the context computes in "
      << Name(compute_type)
      << ": give ParameterSet::Allocate() and ContextOptions::compute_type the same";
}

}  // namespace dtrain
