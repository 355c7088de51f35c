// average_checkpoints.h - one model whose weights are the mean of several checkpoints'.
// SPDX-License-Identifier: Apache-2.0
//
// The last checkpoints of a run wander around what they learned; their mean is often a better model
// than any of them (Vaswani et al. 2017, section 6.1, took the last 5 of base and 20 of big).
#ifndef DTRAIN_RUNS_AVERAGE_CHECKPOINTS_H_
#define DTRAIN_RUNS_AVERAGE_CHECKPOINTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

struct AveragedCheckpoints {
  std::vector<std::string> paths;  // ascending by step
  int64_t step = 0;                // of the last one
  int64_t bytes = 0;               // written
};

// Writes the checkpoint folder `output`: the mean of the weights that evaluations of each take (its
// moving average where it has one), with the newest one's configuration and tokenizer; it is to
// translate, evaluate and export with, no run goes on from it. One path may be a run, which gives
// its newest `last` checkpoints, among them one that it keeps as its best. UsageError: fewer than
// two checkpoints, or `output` is there already or lies among a run's checkpoints. StorageError: a
// damaged checkpoint, unlike models, the disk.
StatusOr<AveragedCheckpoints> AverageCheckpoints(std::span<const std::string> paths, int64_t last,
                                                 const std::string& output);

}  // namespace dtrain

#endif  // DTRAIN_RUNS_AVERAGE_CHECKPOINTS_H_
