// stop_flags.h - what the world asks of a running job between two updates.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_STOP_FLAGS_H_
#define DTRAIN_BASE_STOP_FLAGS_H_

#include <atomic>

namespace dtrain {

// Set by signals (launch/signals.h) or by tests; the trainer agrees on them with all ranks at each
// update.
struct StopFlags {
  std::atomic<bool> stop{false};        // write a checkpoint and end with StoppedError
  std::atomic<bool> checkpoint{false};  // write a checkpoint and go on; the reader clears it
  std::atomic<bool> timeline{false};    // start a timeline, or end it; the reader clears it
};

}  // namespace dtrain

#endif  // DTRAIN_BASE_STOP_FLAGS_H_
