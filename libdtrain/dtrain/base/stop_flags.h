// stop_flags.h - requests from outside to a running job, which it answers between two updates.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_STOP_FLAGS_H_
#define DTRAIN_BASE_STOP_FLAGS_H_

#include <atomic>

namespace dtrain {

// Set by signals (launch/signals.h) or by tests. Before each update the trainer combines the flags
// of all ranks, so that all ranks act on them together.
struct StopFlags {
  std::atomic<bool> stop{false};        // write a checkpoint and end with StoppedError
  std::atomic<bool> checkpoint{false};  // write a checkpoint and continue; the reader clears it
  std::atomic<bool> timeline{false};    // start or end a timeline; the reader clears it
};

}  // namespace dtrain

#endif  // DTRAIN_BASE_STOP_FLAGS_H_
