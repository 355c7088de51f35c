// shared_trainer_options.h - trainer options that the configurations of all programs share.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_INTERNAL_SHARED_TRAINER_OPTIONS_H_
#define DTRAIN_LAUNCH_INTERNAL_SHARED_TRAINER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "dtrain/config/internal/shortest_decimal.h"
#include "dtrain/launch/internal/config_values.h"
#include "dtrain/launch/internal/optimizer_config.h"
#include "dtrain/optimizer.pb.h"
#include "dtrain/train/trainer.h"

namespace dtrain::internal {

// `Config` is proto::TrainerConfig or proto::BertTrainerConfig. This converts all fields that both
// have under the same name. The caller must set updates_per_epoch, is_rate_of_epochs,
// learning_rate, best_metric, early_stop.metric and reducer.power_sgd.seed. The configuration must
// be validated, so that its periods and durations parse.
template <typename Config, typename OptimizerConfig>
TrainerOptions SharedTrainerOptions(const Config& config, const OptimizerConfig& optimizer,
                                    const std::string& run_dir) {
  return {.max_steps = config.max_steps(),
          .max_seconds = SecondsOf(config.max_time()),
          .max_epochs = config.max_epochs(),
          .learning_rate = {},
          .adam = AdamConfigOf(optimizer),
          .clip_norm = optimizer.clip_norm(),
          .loss_scaler = {.on = DTypeOf(config.precision()) == DType::kFloat16},
          .eval_every = PeriodOf(config.eval_every()),
          .checkpoint_every = PeriodOf(config.checkpoint_every()),
          .checkpoint_seconds = 60.0 * static_cast<double>(config.checkpoint_minutes()),
          .checkpoint_dir = run_dir + "/ckpt",
          .keep_last = config.keep_last(),
          .early_stop = {.patience = config.early_stop().patience(),
                         .min_delta = ShortestDecimal(config.early_stop().min_delta()),
                         .min_steps = config.early_stop().min_steps()},
          .log_every = config.log_every(),
          .shard_optimizer = config.shard_optimizer(),
          .replica_check_every = config.replica_check_every(),
          .reducer = {.bucket_bytes = static_cast<int64_t>(config.bucket_mib() * (1 << 20)),
                      .wire_type = DTypeOf(config.wire_precision()),
                      .power_sgd = {.rank = config.power_sgd_rank(),
                                    .start_step = config.power_sgd_start()}},
          .sync_every = config.sync_every(),
          .sync_every_start = config.sync_every_start(),
          .cuda_graphs = CudaGraphsOf(config.cuda_graphs()),
          .timeline = {.directory = run_dir + "/trace", .on = config.timeline()}};
}

}  // namespace dtrain::internal

#endif  // DTRAIN_LAUNCH_INTERNAL_SHARED_TRAINER_OPTIONS_H_
