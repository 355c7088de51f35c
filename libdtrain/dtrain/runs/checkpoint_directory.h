// checkpoint_directory.h - the checkpoints of a run: saved atomically, rotated, and found again.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(CheckpointDirectory directory, CheckpointDirectory::Open(run + "/ckpt"));
//   DT_ASSIGN_OR_RETURN(const SavedCheckpoint saved, directory.Save(step, files));
//   DT_RETURN_IF_ERROR(directory.MarkBest("bleu", step));
//   ...
//   DT_ASSIGN_OR_RETURN(const std::optional<Checkpoint> latest, FindLatestGood(run + "/ckpt"));
//
// The folder contains ckpt/step-00012000/ and the links ckpt/last -> step-00012000 and
// ckpt/best-bleu -> step-00009000. A checkpoint is written as ckpt/.tmp-step-00012000 and renamed
// when all of it is on the disk.
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

// The checkpoints that are kept when a new one is saved. The best one of each metric and the one
// that `last` points to are always kept.
struct CheckpointRotation {
  int keep_last = 2;       // number of newest checkpoints
  int64_t keep_every = 0;  // also keep steps that are multiples of this; 0 for none
};

struct SavedCheckpoint {
  std::string path;
  int64_t bytes = 0;
  double seconds = 0;
};

// Saves checkpoints. Only one process of a run may use it: the root rank.
class CheckpointDirectory {
 public:
  // Creates the folder if it is missing, and removes the remains of an interrupted save.
  static StatusOr<CheckpointDirectory> Open(const std::string& path,
                                            const CheckpointRotation& rotation = {});

  // Saves a checkpoint, which is durable on return, and points `last` to it. If `best_metric` is
  // given, also points best-<metric> to it. Then deletes the checkpoints that the rotation does not
  // keep. On a StorageError (exit code 7) earlier checkpoints are unchanged. A checkpoint of the
  // same step is replaced.
  StatusOr<SavedCheckpoint> Save(int64_t step, std::span<const CheckpointFile> files,
                                 std::string_view best_metric = "");

  // Points best-<metric> to the saved checkpoint of `step`, unless it already does.
  Status MarkBest(std::string_view metric, int64_t step);
  // Renames the best-<metric> links of all metrics other than `metric` (with "", of all metrics) to
  // former-best-<metric>. So programs that read the best checkpoint use `metric`, and the
  // checkpoints of the other links are still kept. Warns if a link cannot be renamed.
  void KeepBestOnlyBy(std::string_view metric);
  // True if there is a checkpoint of that step.
  bool Has(int64_t step) const;

  const std::string& path() const { return path_; }

 private:
  CheckpointDirectory(std::string path, const CheckpointRotation& rotation)
      : path_(std::move(path)), rotation_(rotation) {}

  Status CheckSpace(std::span<const CheckpointFile> files) const;
  Status Publish(const std::string& temporary, const std::string& name) const;
  // If an old checkpoint cannot be deleted, this only warns, because the new one is good.
  void Rotate() const;

  std::string path_;
  CheckpointRotation rotation_;
};

// For example "step-00012000".
std::string CheckpointName(int64_t step);

// Steps of the checkpoints in the folder, valid or not, in ascending order; empty if the folder
// does not exist.
std::vector<int64_t> ListCheckpoints(const std::string& path);

// Renames checkpoints newer than `step` to .refused-NAME, or a similar free name. FindLatestGood()
// skipped them because they are damaged, but the rotation would count them as the newest. Warns if
// one cannot be renamed.
void PutAsideNewer(const std::string& path, int64_t step);

// Returns the newest checkpoint that passes all checks. Logs one warning for each refused one, with
// the reason; the last says what is used instead. Returns nullopt if there are no checkpoints at
// all, and StorageError if none of them is valid.
StatusOr<std::optional<Checkpoint>> FindLatestGood(const std::string& path);

// For programs that use a trained model. `path` is a checkpoint, a folder of checkpoints, or a run
// directory. If there are several checkpoints it opens best-<metric>, or the newest if that is
// damaged or `metric` is "". Returns UsageError if the run has no best checkpoint for that metric.
StatusOr<Checkpoint> OpenCheckpoint(const std::string& path, std::string_view metric = "");

// The metric by which the run at `path` (or its folder of checkpoints) selects its best checkpoint,
// or "" if there is none.
std::string BestMetricOf(const std::string& path);

}  // namespace dtrain

#endif  // DTRAIN_RUNS_CHECKPOINT_DIRECTORY_H_
