// clock_offset.h - how far the clocks of ranks are apart, by messages to and fro.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_CLOCK_OFFSET_H_
#define DTRAIN_COMM_CLOCK_OFFSET_H_

#include <functional>
#include <vector>

#include "dtrain/comm/communicator.h"

namespace dtrain {

// Seconds that each rank's clock is ahead of rank 0's, by rank. All ranks call it, with nothing
// else in flight, and get the same. Rank 0 asks each rank 21 times for its time: the offset is the
// median of (their time) - (the middle between question and answer) over the quicker half. Wrong by
// at most half the way to and fro.
std::vector<double> MeasureClockOffsets(Communicator& comm, const std::function<double()>& clock);

}  // namespace dtrain

#endif  // DTRAIN_COMM_CLOCK_OFFSET_H_
