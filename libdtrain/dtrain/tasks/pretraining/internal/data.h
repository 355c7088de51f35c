// data.h - from the data section of a PretrainConfig to shards and examples.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_PRETRAINING_INTERNAL_DATA_H_
#define DTRAIN_TASKS_PRETRAINING_INTERNAL_DATA_H_

#include <cstdint>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/tasks/pretraining/examples.h"

namespace dtrain::proto {
class PretrainDataConfig;
}  // namespace dtrain::proto

namespace dtrain::internal {

PretrainingExampleOptions ExamplesOf(const proto::PretrainDataConfig& data, uint64_t seed);

// A warning where data.max_predictions keeps clearly fewer tokens of full examples to be guessed
// than data.masked_share asks for, or "".
std::string MaskingWarning(const proto::PretrainDataConfig& data);

// Paths of document shards.
struct PretrainData {
  std::string train;  // empty where not asked for
  std::string dev;    // empty where there is none
};

// Prepares the texts into `cache_dir`, or finds them there: data.train, of which a part is held out
// where data.dev is empty, and data.dev. Without `with_train` data.train is only read for that
// part. The root does it for all; every rank returns its error. Collective.
StatusOr<PretrainData> PreparePretrainData(const proto::PretrainDataConfig& data,
                                           const std::string& cache_dir, bool with_train,
                                           Runtime& runtime);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_PRETRAINING_INTERNAL_DATA_H_
