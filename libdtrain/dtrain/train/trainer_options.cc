// trainer_options.cc - checks of a trainer's settings, and what they mean for its parts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/trainer_options.h"

#include <cmath>

namespace dtrain {

Status CheckEnds(const TrainerOptions& options) {
  const bool stops_early = options.early_stop.patience > 0 && !options.eval_every.never();
  if (options.max_steps > 0 || options.max_seconds > 0.0 || options.max_epochs > 0 || stops_early) {
    return OkStatus();
  }
  return UsageError(
      "this run would never end: set max_steps, max_seconds or max_epochs of its TrainerOptions, "
      "or early_stop.patience together with eval_every");
}

StepRules RulesOf(const TrainerOptions& options, double losses_per_update) {
  // A power of two, which rounds nothing, near the number of losses in an update. Gradients are
  // then about those of the scaled mean loss, whatever the batch.
  const double tokens =
      losses_per_update > 0.0 ? std::exp2(std::round(std::log2(losses_per_update))) : 1.0;
  return {.loss_scaler = options.loss_scaler,
          .loss_scale_tokens = tokens,
          .clip_norm = options.clip_norm,
          .beta1 = options.adam.CorrectedBeta1(),
          .beta2 = options.adam.CorrectedBeta2(),
          .average_decay = options.adam.ema_decay};
}

GradientStrategyOptions StrategyOf(const TrainerOptions& options, const Stream& stream) {
  GradientStrategyOptions strategy = {.reducer = options.reducer,
                                      .adam = options.adam,
                                      .shard_optimizer = options.shard_optimizer,
                                      .sync_every = options.sync_every,
                                      .sync_every_start = options.sync_every_start};
  strategy.reducer.stream = stream;
  return strategy;
}

}  // namespace dtrain
