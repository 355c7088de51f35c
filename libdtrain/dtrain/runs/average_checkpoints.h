// average_checkpoints.h - writes a model whose weights are the mean of several checkpoints.
// SPDX-License-Identifier: Apache-2.0
//
// The mean of a run's last checkpoints is often a better model than any of them. Vaswani et al.
// 2017, section 6.1, averaged the last 5 checkpoints of the base model and 20 of the big one.
//
//   AverageCheckpoints(std::vector<std::string>{"runs/nmt"}, /*last=*/5, "nmt-averaged");
#ifndef DTRAIN_RUNS_AVERAGE_CHECKPOINTS_H_
#define DTRAIN_RUNS_AVERAGE_CHECKPOINTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

struct AveragedCheckpoints {
  std::vector<std::string> paths;  // in ascending order of steps
  int64_t step = 0;                // step of the last checkpoint
  int64_t bytes = 0;               // number of bytes written
};

// Writes the checkpoint folder `output`. Its weights are the mean of the weights that evaluations
// use (the moving average, if a checkpoint has one). Configuration and tokenizer are those of the
// newest checkpoint. The result can be used to translate, evaluate and export, but not to continue
// training. A single path may be a run: then its newest `last` checkpoints are used, including one
// that is kept only as the best. Returns UsageError if there are fewer than two checkpoints, or if
// `output` exists or is inside of a run's checkpoints. Returns StorageError for a damaged
// checkpoint, different models, or a disk error.
StatusOr<AveragedCheckpoints> AverageCheckpoints(std::span<const std::string> paths, int64_t last,
                                                 const std::string& output);

}  // namespace dtrain

#endif  // DTRAIN_RUNS_AVERAGE_CHECKPOINTS_H_
