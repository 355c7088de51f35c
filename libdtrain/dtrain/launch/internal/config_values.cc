// config_values.cc - one assignment per value.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/internal/config_values.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "dtrain/base/check.h"
#include "dtrain/bert.pb.h"
#include "dtrain/model.pb.h"
#include "dtrain/trainer.pb.h"

namespace dtrain::internal {

Period PeriodOf(const std::string& text) {
  const StatusOr<Period> period = ParsePeriod(text);
  DT_CHECK(period.ok()) << period.status().message();
  return *period;
}

double SecondsOf(const std::string& text) {
  const StatusOr<double> seconds = ParseDuration(text);
  DT_CHECK(seconds.ok()) << seconds.status().message();
  return *seconds;
}

Activation ActivationOf(proto::ModelConfig::Activation activation) {
  switch (activation) {
    case proto::ModelConfig::relu:
      return Activation::kRelu;
    case proto::ModelConfig::gelu_erf:
      return Activation::kGeluErf;
    case proto::ModelConfig::gelu_tanh:
      return Activation::kGeluTanh;
    case proto::ModelConfig::swish:
      return Activation::kSwish;
  }
  return Activation::kRelu;
}

DType DTypeOf(proto::TrainerConfig::Precision precision) {
  switch (precision) {
    case proto::TrainerConfig::fp32:
      return DType::kFloat32;
    case proto::TrainerConfig::bf16:
      return DType::kBFloat16;
    case proto::TrainerConfig::fp16:
      return DType::kFloat16;
  }
  return DType::kFloat32;
}

DType DTypeOf(proto::Wire::Precision precision) {
  switch (precision) {
    case proto::Wire::fp32:
      return DType::kFloat32;
    case proto::Wire::bf16:
      return DType::kBFloat16;
    case proto::Wire::fp16:
      return DType::kFloat16;
  }
  return DType::kFloat32;
}

Recompute RecomputeOf(proto::TrainerConfig::Recompute recompute) {
  switch (recompute) {
    case proto::TrainerConfig::none:
      return Recompute::kNone;
    case proto::TrainerConfig::cheap:
      return Recompute::kCheap;
    case proto::TrainerConfig::full:
      return Recompute::kFull;
    case proto::TrainerConfig::every_k:
      return Recompute::kEveryK;
    case proto::TrainerConfig::auto_:
      break;  // planned when the model is known
  }
  return Recompute::kNone;
}

InvalidText InvalidTextOf(proto::PredictConfig_Invalid invalid) {
  switch (invalid) {
    case proto::PredictConfig::replace:
      return InvalidText::kReplace;
    case proto::PredictConfig::skip:
      return InvalidText::kSkip;
    case proto::PredictConfig::fail:
      break;
  }
  return InvalidText::kFail;
}

CudaGraphs CudaGraphsOf(proto::CudaGraphs::Mode mode) {
  switch (mode) {
    case proto::CudaGraphs::auto_:
      return CudaGraphs::kAuto;
    case proto::CudaGraphs::on:
      return CudaGraphs::kOn;
    case proto::CudaGraphs::off:
      return CudaGraphs::kOff;
  }
  return CudaGraphs::kAuto;
}

std::string WithFullNames(const std::string& textproto) {
  std::string full;
  std::vector<std::string> sections;
  for (const absl::string_view line : absl::StrSplit(textproto, '\n')) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (absl::EndsWith(text, " {")) {
      sections.emplace_back(text.substr(0, text.size() - 2));
    } else if (text == "}") {
      sections.pop_back();
    } else if (!text.empty()) {
      absl::StrAppend(&full, absl::StrJoin(sections, "."), sections.empty() ? "" : ".", text, "\n");
    }
  }
  return full;
}

}  // namespace dtrain::internal
