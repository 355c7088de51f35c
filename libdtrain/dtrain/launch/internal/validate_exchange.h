// validate_exchange.h - refuses ways to exchange gradients that exclude each other.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_INTERNAL_VALIDATE_EXCHANGE_H_
#define DTRAIN_LAUNCH_INTERNAL_VALIDATE_EXCHANGE_H_

#include "absl/strings/str_cat.h"
#include "dtrain/base/status.h"
#include "dtrain/trainer.pb.h"

namespace dtrain::internal {

// `trainer` is a proto::TrainerConfig or proto::BertTrainerConfig.
template <typename Config>
Status ValidateExchange(const Config& trainer) {
  if (trainer.shard_optimizer() && (trainer.power_sgd_rank() > 0 || trainer.sync_every() > 1)) {
    return UsageError(
        "trainer.shard_optimizer works neither with trainer.power_sgd_rank nor with "
        "trainer.sync_every above 1: leave these at their defaults, or set "
        "trainer.shard_optimizer=false");
  }
  if (trainer.sync_every() == 1) {
    if (trainer.sync_every_start() == 0) return OkStatus();
    return UsageError(
        "trainer.sync_every_start has no effect, because trainer.sync_every is 1: set that to the "
        "updates between two averages, or leave trainer.sync_every_start at 0");
  }
  if (trainer.power_sgd_rank() > 0 && trainer.sync_every_start() > 0) {
    return UsageError(
        absl::StrCat("with trainer.sync_every above 1 no gradients are exchanged after update ",
                     trainer.sync_every_start(),
                     " (trainer.sync_every_start), and trainer.power_sgd_rank cannot be used for "
                     "the updates before "
                     "only: set trainer.power_sgd_rank or trainer.sync_every, not both"));
  }
  if (trainer.power_sgd_rank() > 0) {
    return UsageError(
        "with trainer.sync_every above 1 no gradients are exchanged that trainer.power_sgd_rank "
        "could "
        "compress: set one of the two");
  }
  if (trainer.wire_precision() != proto::Wire::fp32 && trainer.sync_every_start() == 0) {
    return UsageError(
        "with trainer.sync_every above 1 weights are exchanged instead of gradients, always as "
        "fp32: leave "
        "trainer.wire_precision at fp32, or set trainer.sync_every_start to exchange gradients "
        "before");
  }
  return OkStatus();
}

}  // namespace dtrain::internal

#endif  // DTRAIN_LAUNCH_INTERNAL_VALIDATE_EXCHANGE_H_
