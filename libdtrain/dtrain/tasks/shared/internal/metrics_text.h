// metrics_text.h - the metrics of an evaluation, as commands print them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_SHARED_INTERNAL_METRICS_TEXT_H_
#define DTRAIN_TASKS_SHARED_INTERNAL_METRICS_TEXT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "dtrain/base/printable.h"
#include "dtrain/train/task.h"

namespace dtrain::internal {

// "  loss 0.1234  f1 91.0000".
inline std::string MetricsText(const EvaluationResult& result) {
  std::string text;
  for (const auto& [name, value] : result.metrics) {
    absl::StrAppend(&text, "  ", name, " ", FormatNumber(value, 4));
  }
  return text;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_SHARED_INTERNAL_METRICS_TEXT_H_
