// optimizer_config.cc - one check a rule, one assignment a field.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/internal/optimizer_config.h"

#include <string>

#include "absl/strings/str_format.h"
#include "dtrain/optimizer.pb.h"

namespace dtrain::internal {
namespace {

LrScheduleOptions::Kind ScheduleOf(proto::OptimizerConfig::Schedule schedule) {
  using Kind = LrScheduleOptions::Kind;
  switch (schedule) {
    case proto::OptimizerConfig::inverse_sqrt:
      return Kind::kInverseSqrt;
    case proto::OptimizerConfig::transformer:
      return Kind::kTransformer;
    case proto::OptimizerConfig::linear:
      return Kind::kLinear;
    case proto::OptimizerConfig::cosine:
      return Kind::kCosine;
    case proto::OptimizerConfig::polynomial:
      return Kind::kPolynomial;
    case proto::OptimizerConfig::polynomial_total:
      return Kind::kPolynomialTotal;
    case proto::OptimizerConfig::warmup_stable_decay:
      return Kind::kWarmupStableDecay;
    case proto::OptimizerConfig::constant:
      return Kind::kConstant;
    case proto::OptimizerConfig::linear_to_budget:
      return Kind::kLinearBudget;
  }
  return Kind::kConstant;
}

Status ValidateDecay(const proto::OptimizerConfig& optimizer, int64_t total) {
  const bool decays = optimizer.schedule() == proto::OptimizerConfig::warmup_stable_decay;
  const int64_t decay = optimizer.decay_steps();
  if (decays != (decay > 0)) {
    return UsageError(
        decays
            ? "optimizer.schedule warmup_stable_decay needs optimizer.decay_steps of at least 1"
            : "optimizer.decay_steps is for optimizer.schedule=warmup_stable_decay; leave it out");
  }
  if (!decays || optimizer.warmup_steps() <= total - decay) return OkStatus();
  return UsageError(absl::StrFormat(
      "optimizer.warmup_steps (%d) and decay_steps (%d) are more than the %d updates of the "
      "schedule: set fewer, or train longer",
      optimizer.warmup_steps(), decay, total));
}

}  // namespace

Status ValidateSchedule(const proto::OptimizerConfig& optimizer, int64_t updates,
                        bool has_max_time) {
  using Optimizer = proto::OptimizerConfig;
  const std::string name = Optimizer::Schedule_Name(optimizer.schedule());
  const int64_t total = optimizer.total_steps() > 0 ? optimizer.total_steps() : updates;
  switch (optimizer.schedule()) {
    case Optimizer::inverse_sqrt:
    case Optimizer::transformer:
      if (optimizer.warmup_steps() > 0) break;
      return UsageError(absl::StrFormat(
          "optimizer.schedule %s needs optimizer.warmup_steps of at least 1", name));
    case Optimizer::linear:
    case Optimizer::cosine:
    case Optimizer::polynomial:
    case Optimizer::polynomial_total:
    case Optimizer::warmup_stable_decay:
      if (total == 0) {
        return UsageError(absl::StrFormat(
            "optimizer.schedule %s needs an end: set optimizer.total_steps, trainer.max_steps or "
            "trainer.max_epochs",
            name));
      }
      if (optimizer.warmup_steps() < total) break;
      return UsageError(
          absl::StrFormat("optimizer.warmup_steps (%d) must be below the %d steps of "
                          "optimizer.schedule %s: set fewer, "
                          "or train longer",
                          optimizer.warmup_steps(), total, name));
    case Optimizer::linear_to_budget:
      if (has_max_time) break;
      return UsageError(
          "optimizer.schedule linear_to_budget needs trainer.max_time: set it, such as "
          "trainer.max_time=30m, or set optimizer.schedule=linear for a run of "
          "trainer.max_steps or trainer.max_epochs, whose optimizer.warmup_steps must be fewer");
    case Optimizer::constant:
      break;
  }
  DT_RETURN_IF_ERROR(ValidateDecay(optimizer, total));
  if (optimizer.min_learning_rate() > optimizer.learning_rate()) {
    return UsageError(
        absl::StrFormat("optimizer.min_learning_rate (%g) is above optimizer.learning_rate (%g)",
                        optimizer.min_learning_rate(), optimizer.learning_rate()));
  }
  return OkStatus();
}

Status ValidateOptimizer(const proto::OptimizerConfig& optimizer) {
  using Optimizer = proto::OptimizerConfig;
  if (optimizer.type() == Optimizer::lamb && optimizer.weight_decay() == 0.0f) {
    return UsageError(
        "optimizer.type=lamb without optimizer.weight_decay adapts no tensor and equals adamw: set "
        "it, or optimizer.type=nvlamb, which adapts all tensors");
  }
  return OkStatus();
}

AdamConfig AdamConfigOf(const proto::OptimizerConfig& config) {
  using Config = proto::OptimizerConfig;
  AdamConfig adam{.beta1 = config.beta1(),
                  .beta2 = config.beta2(),
                  .epsilon = config.epsilon(),
                  .weight_decay = config.weight_decay(),
                  .decoupled = config.type() != Config::adam,
                  .bias_correction = config.type() != Config::bert_adamw,
                  .ema_decay = config.ema_decay()};
  if (config.type() == Config::lamb) adam.trust_ratio = AdamConfig::TrustRatio::kDecayed;
  if (config.type() == Config::nvlamb) adam.trust_ratio = AdamConfig::TrustRatio::kAll;
  return adam;
}

LrScheduleOptions LearningRateOf(const proto::OptimizerConfig& config, int64_t max_steps,
                                 int64_t hidden_size) {
  return {.kind = ScheduleOf(config.schedule()),
          .base = config.learning_rate(),
          .warmup_steps = config.warmup_steps(),
          .total_steps = config.total_steps() > 0 ? config.total_steps() : max_steps,
          .decay_steps = config.decay_steps(),
          .minimum = config.min_learning_rate(),
          .power = config.power(),
          .hidden_size = hidden_size};
}

}  // namespace dtrain::internal
