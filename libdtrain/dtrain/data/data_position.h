// data_position.h - a place in training data, which checkpoints keep.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_DATA_POSITION_H_
#define DTRAIN_DATA_DATA_POSITION_H_

#include <cstdint>
#include <optional>

#include "dtrain/data/batching.h"

namespace dtrain {

// The next sample of the epoch's global order. The same on all ranks, whatever their number.
struct DataPosition {
  int64_t epoch = 0;   // 0-based
  int64_t sample = 0;  // of the epoch's order
  // Of an epoch that has begun; without it, that of the loader's options.
  std::optional<SampleOrder> order = {};

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

}  // namespace dtrain

#endif  // DTRAIN_DATA_DATA_POSITION_H_
