// nmt_config.h - the rules of a translation run that concern several fields at once.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_CONFIG_NMT_CONFIG_H_
#define DTRAIN_CONFIG_NMT_CONFIG_H_

#include <cstdint>

#include "dtrain/base/status.h"

namespace dtrain::proto {
class DataConfig;
class NmtConfig;
class OptimizerConfig;
}  // namespace dtrain::proto

namespace dtrain {

// CheckRules() and what it cannot see: sizes that must divide each other, schedules that need an
// end, file lists that belong together. Looks at no file. UsageError names the fields.
absl::Status ValidateNmtConfig(const proto::NmtConfig& config);

// All of it but the corpus, for those who only look at the configuration.
absl::Status ValidateWithoutData(const proto::NmtConfig& config);

// The optimizer section of any program. updates: the run's length by UpdatesOf(), where the
// schedule has none of its own. Before the data is known an epoch has no end but is one.
absl::Status ValidateSchedule(const proto::OptimizerConfig& optimizer, int64_t updates,
                              bool has_max_time);
inline constexpr int64_t kUnknownUpdates = int64_t{1} << 40;

// The optimizer of any program, with trainer.shard_optimizer.
absl::Status ValidateOptimizer(const proto::OptimizerConfig& optimizer, bool shard_optimizer);

// The part of it about the corpus: which files are given, and that they pair up.
absl::Status ValidateDataConfig(const proto::DataConfig& data);

}  // namespace dtrain

#endif  // DTRAIN_CONFIG_NMT_CONFIG_H_
