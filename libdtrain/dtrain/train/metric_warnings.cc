// metric_warnings.cc - each warning comes once, not with every evaluation.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/metric_warnings.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtrain/base/log.h"

namespace dtrain {

void MetricWarnings::Look(const EvaluationResult& result,
                          const std::vector<SteeringMetric>& steering) {
  if (!result.metrics.empty() && !std::exchange(has_looked_, true) && is_root_) {
    for (const SteeringMetric& metric : steering) {
      if (result.Has(metric.name)) continue;
      const auto name = [](std::string* out, const auto& entry) { out->append(entry.first); };
      LogWarning(absl::StrFormat("evaluations give %s, but not %s: %s",
                                 absl::StrJoin(result.metrics, ", ", name), metric.name,
                                 metric.if_missing));
    }
  }
  const std::set<std::string> before = std::exchange(undefined_, {});
  for (const SteeringMetric& metric : steering) {
    if (!result.Has(metric.name) || std::isfinite(result.Metric(metric.name))) continue;
    const bool is_new = undefined_.insert(metric.name).second && !before.contains(metric.name);
    if (!is_new || !is_root_) continue;
    // Losses, and what is computed from them, are defined for any labels.
    const bool is_loss =
        metric.name.ends_with("loss") || metric.name == "nll" || metric.name == "ppl";
    LogWarning(absl::StrFormat("%s is undefined on the dev set (%s): %s", metric.name,
                               is_loss
                                   ? "the weights or activations are not finite"
                                   : "perhaps all texts, or all of a group, have the same label",
                               metric.if_undefined));
  }
}

}  // namespace dtrain
