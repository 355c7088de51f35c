// checkpoint.h - the state of a run on disk: weights, optimizer, position and other files.
// along. SPDX-License-Identifier: Apache-2.0
//
// A checkpoint directory holds model.safetensors (names and shapes of the parameters, float32),
// optimizer.safetensors (m., v. and, where kept, average. of each), state.json and the task's own
// files; train/checkpoint_directory.h writes it atomically and verifies it.
#ifndef DTRAIN_TRAIN_CHECKPOINT_H_
#define DTRAIN_TRAIN_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"
#include "dtrain/train/task.h"

namespace dtrain {

// Everything beside tensors that a run needs to go on as if it had never stopped.
struct TrainState {
  int64_t step = 0;  // updates tried, skipped ones included
  DataPosition position;
  int64_t target_tokens = 0;
  int64_t skipped = 0;
  double seconds = 0.0;  // of training
  double best_metric = 0.0;
  int64_t best_step = -1;  // -1: no evaluation yet
  double early_stop_best = 0.0;
  int64_t early_stop_step = -1;
  int stalled_evaluations = 0;
};

struct CheckpointStoreOptions {
  std::string directory;
  int keep_last = 2;
  int keep_best = 1;
  std::string best_metric = "bleu";
};

// Reads and writes the checkpoints of one run; used by the root rank.
class CheckpointStore {
 public:
  explicit CheckpointStore(const CheckpointStoreOptions& options) : options_(options) {}

  // Writes step-<step> and prunes old ones. `metric`, if finite, is the best_metric of this
  // checkpoint.
  absl::Status Save(const TrainState& state, ParameterSet& parameters, Adam& adam,
                    const std::vector<NamedFile>& files, double metric, bool smaller_is_better);

  // The newest good checkpoint's path, or "" where there is none. Damaged ones are passed over with
  // a warning that names file and reason.
  absl::StatusOr<std::string> Latest() const;

 private:
  CheckpointStoreOptions options_;
};

// Loads a checkpoint into an allocated model and optimizer. Names, shapes and types must match
// exactly; the error names the first that does not.
absl::Status LoadCheckpoint(const std::string& path, ParameterSet& parameters, Adam& adam,
                            TrainState& state);

// Loads only the weights: for evaluation and translation. The moving average where the checkpoint
// has one.
absl::Status LoadWeights(const std::string& path, ParameterSet& parameters);

// The directory of the checkpoint a user means by a run directory, a checkpoint directory, or a
// link to one.
absl::StatusOr<std::string> ResolveCheckpoint(const std::string& path);

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_CHECKPOINT_H_
