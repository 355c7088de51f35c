// clock_offset.h - measures the differences between the clocks of the ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_CLOCK_OFFSET_H_
#define DTRAIN_COMM_CLOCK_OFFSET_H_

#include <functional>
#include <vector>

#include "dtrain/comm/communicator.h"

namespace dtrain {

// Returns the seconds by which each rank's clock is ahead of rank 0's, by rank. All ranks call it,
// with nothing else in flight, and get the same result. Rank 0 asks each rank 21 times for its
// time. The offset is the median of (their time) - (the middle between question and answer) over
// the quicker half. The error is at most half a round trip.
std::vector<double> MeasureClockOffsets(Communicator& comm, const std::function<double()>& clock);

}  // namespace dtrain

#endif  // DTRAIN_COMM_CLOCK_OFFSET_H_
