// measure_updates.h - times real updates of a configuration, for `dtrain estimate --measure`.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TOOLS_DTRAIN_MEASURE_UPDATES_H_
#define DTRAIN_TOOLS_DTRAIN_MEASURE_UPDATES_H_

#include <google/protobuf/message.h>

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/config/config.h"

namespace dtrain {

struct MeasuredUpdates {
  double seconds = 0;            // the median time of an update
  double epochs_per_update = 0;  // 0 if the program does not count epochs
};

// Starts `program` with the configuration in a temporary folder, on one rank, and ends it after
// some updates. Returns the error of the program if it cannot train.
StatusOr<MeasuredUpdates> MeasureUpdates(const std::string& program, const ConfigSources& sources);

// How long a run with the limits of `config` will take, in a line for people.
std::string DescribeDuration(const google::protobuf::Message& config,
                             const MeasuredUpdates& measured);

}  // namespace dtrain

#endif  // DTRAIN_TOOLS_DTRAIN_MEASURE_UPDATES_H_
