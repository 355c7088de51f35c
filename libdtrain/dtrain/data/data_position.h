// data_position.h - a place in training data, which checkpoints keep.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_DATA_POSITION_H_
#define DTRAIN_DATA_DATA_POSITION_H_

#include <cstdint>

namespace dtrain {

// The next sample of the epoch's global order. The same on all ranks, whatever their number.
struct DataPosition {
  int64_t epoch = 0;   // 0-based
  int64_t sample = 0;  // of the epoch's order

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

}  // namespace dtrain

#endif  // DTRAIN_DATA_DATA_POSITION_H_
