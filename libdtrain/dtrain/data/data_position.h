// data_position.h - a position in training data, which checkpoints store.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_DATA_POSITION_H_
#define DTRAIN_DATA_DATA_POSITION_H_

#include <cstdint>
#include <optional>

#include "dtrain/data/batching.h"

namespace dtrain {

// The next sample in the epoch's global order. It is the same on all ranks, for any number of
// ranks.
struct DataPosition {
  int64_t epoch = 0;   // counted from 0
  int64_t sample = 0;  // index in the epoch's order
  // The sample order of an epoch that has already begun. If absent, the loader's options determine
  // it.
  std::optional<SampleOrder> order = {};

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

}  // namespace dtrain

#endif  // DTRAIN_DATA_DATA_POSITION_H_
