// checkpoint_directory.h - the checkpoints of a run: saved in one step, rotated, found again.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(CheckpointDirectory directory, CheckpointDirectory::Open(run + "/ckpt"));
//   DT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, directory.Save(step, files));
//   DT_RETURN_IF_ERROR(directory.MarkBest("bleu", step));
//   ...
//   DT_ASSIGN_OR_RETURN(const std::optional<Checkpoint> latest, FindLatestGood(run + "/ckpt"));
//
// ckpt/step-00012000/, ckpt/last -> step-00012000, ckpt/best-bleu -> step-00009000. A checkpoint is
// written as ckpt/.tmp-step-00012000 and renamed when all of it is on the disk.
#ifndef DTRAIN_RUNS_CHECKPOINT_DIRECTORY_H_
#define DTRAIN_RUNS_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/runs/checkpoint.h"

namespace dtrain {

// What stays when a checkpoint is saved. The best one of each metric and the one `last` points to
// always stay.
struct CheckpointRotation {
  int keep_last = 2;       // the newest ones
  int64_t keep_every = 0;  // and those whose step is a multiple of this; 0 for none
};

struct SavedCheckpoint {
  std::string path;
  int64_t bytes = 0;
  double seconds = 0;
};

// Saves checkpoints. One process per run: the root rank.
class CheckpointDirectory {
 public:
  // Creates the folder where it is missing and removes what an interrupted save has left.
  static StatusOr<CheckpointDirectory> Open(const std::string& path,
                                            const CheckpointRotation& rotation = {});

  // Saves a checkpoint, durable on return, points `last` to it, and best-<metric> where
  // `best_metric` says that it is the best by one, and deletes what the rotation does not keep. On
  // an error (StorageError, exit code 7) the earlier checkpoints are as they were. A checkpoint of
  // the same step is replaced.
  StatusOr<SavedCheckpoint> Save(int64_t step, std::span<const CheckpointFile> files,
                                 std::string_view best_metric = "");

  // Points best-<metric> to the saved checkpoint of `step`, where it does not yet.
  Status MarkBest(std::string_view metric, int64_t step);
  // Renames the marks of all other metrics, "" those of all, to former-best-<metric>: what is read
  // is the best by `metric`, and what the others mark stays. Warns where it cannot.
  void KeepBestOnlyBy(std::string_view metric);
  // Whether there is one of that step.
  bool Has(int64_t step) const;

  const std::string& path() const { return path_; }

 private:
  CheckpointDirectory(std::string path, const CheckpointRotation& rotation)
      : path_(std::move(path)), rotation_(rotation) {}

  Status CheckSpace(std::span<const CheckpointFile> files) const;
  Status Publish(const std::string& temporary, const std::string& name) const;
  // Failing to delete an old checkpoint is a warning, not an error: the new one is good.
  void Rotate() const;

  std::string path_;
  CheckpointRotation rotation_;
};

// "step-00012000".
std::string CheckpointName(int64_t step);

// Steps of the checkpoints in the folder, good or not, in rising order; none if it does not exist.
std::vector<int64_t> ListCheckpoints(const std::string& path);

// Renames checkpoints behind `step` to .refused-NAME, or a free name like it: FindLatestGood()
// passed them over, and they would count as the newest when old ones are deleted. Warns where it
// cannot.
void PutAsideNewer(const std::string& path, int64_t step);

// The newest checkpoint that passes all checks. A warning in the log says of each refused one why.
// Nothing if there are no checkpoints at all; StorageError if there are, but none is good.
StatusOr<std::optional<Checkpoint>> FindLatestGood(const std::string& path);

// For programs that use a trained model: `path` is a checkpoint, a folder of checkpoints or a run
// directory. Of several it is best-<metric>, or the newest where that is damaged or `metric` is "".
// UsageError: the run keeps no best checkpoint by that metric.
StatusOr<Checkpoint> OpenCheckpoint(const std::string& path, std::string_view metric = "");

// The metric that the run at `path` (or the folder of its checkpoints) marks its best checkpoint
// by, or "" where there is none.
std::string BestMetricOf(const std::string& path);

}  // namespace dtrain

#endif  // DTRAIN_RUNS_CHECKPOINT_DIRECTORY_H_
