// lr_schedule.cc - the formulas of the schedules.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtrain/base/check.h"

namespace dtrain {

bool FallsToAnEnd(LrScheduleOptions::Kind kind) {
  using Kind = LrScheduleOptions::Kind;
  return kind == Kind::kLinear || kind == Kind::kCosine || kind == Kind::kPolynomial ||
         kind == Kind::kPolynomialTotal || kind == Kind::kWarmupStableDecay;
}

void CheckSchedule(const LrScheduleOptions& options) {
  using Kind = LrScheduleOptions::Kind;
  DT_CHECK(options.kind != Kind::kTransformer || options.hidden_size > 0)
      << "the schedule kTransformer needs hidden_size";
  DT_CHECK((options.kind != Kind::kTransformer && options.kind != Kind::kInverseSqrt) ||
           options.warmup_steps > 0)
      << "a learning rate that falls with the square root of the steps needs warmup_steps of at "
         "least 1; "
         "it is highest there";
  DT_CHECK(options.kind != Kind::kWarmupStableDecay || options.decay_steps > 0)
      << "the schedule kWarmupStableDecay needs decay_steps";
  if (!FallsToAnEnd(options.kind)) return;
  DT_CHECK_GT(options.total_steps, 0)
      << "a learning rate that falls until the end of the run needs total_steps";
}

double LearningRate(const LrScheduleOptions& options, int64_t step, double budget_used) {
  using Kind = LrScheduleOptions::Kind;
  CheckSchedule(options);
  const auto s = static_cast<double>(step + 1);
  const auto warmup = static_cast<double>(std::max<int64_t>(options.warmup_steps, 1));
  if (options.kind == Kind::kTransformer) {
    return options.base / std::sqrt(static_cast<double>(options.hidden_size)) *
           std::min(1.0 / std::sqrt(s), s / (warmup * std::sqrt(warmup)));
  }
  const double warm = options.warmup_steps > 0 ? std::min(1.0, s / warmup) : 1.0;
  const double span = static_cast<double>(options.total_steps - options.warmup_steps);
  const double progress =
      span > 0.0 ? std::clamp((s - static_cast<double>(options.warmup_steps)) / span, 0.0, 1.0)
                 : static_cast<double>(step >= options.total_steps);
  const auto decay_to_minimum = [&](double factor) {
    return options.minimum + (options.base - options.minimum) * factor;
  };
  switch (options.kind) {
    case Kind::kConstant:
    case Kind::kTransformer:
      return warm * options.base;
    case Kind::kInverseSqrt:
      return warm * options.base * std::sqrt(warmup / std::max(s, warmup));
    case Kind::kLinear:
      return warm * decay_to_minimum(1.0 - progress);
    case Kind::kCosine:
      return warm * decay_to_minimum(0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case Kind::kPolynomial:
      return warm * decay_to_minimum(std::pow(1.0 - progress, options.power));
    case Kind::kPolynomialTotal: {
      if (warm < 1.0) return warm * options.base;
      const double total = static_cast<double>(std::max<int64_t>(options.total_steps, 1));
      return decay_to_minimum(std::pow(1.0 - std::min(s / total, 1.0), options.power));
    }
    case Kind::kWarmupStableDecay: {
      const auto decay = static_cast<double>(options.decay_steps);
      const double decayed = s - (static_cast<double>(options.total_steps) - decay);
      return warm * decay_to_minimum(1.0 - std::sqrt(std::clamp(decayed / decay, 0.0, 1.0)));
    }
    case Kind::kLinearBudget:
      return warm * decay_to_minimum(1.0 - std::clamp(budget_used, 0.0, 1.0));
  }
  return 0.0;
}

}  // namespace dtrain
