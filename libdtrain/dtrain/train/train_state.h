// train_state.h - what a run needs besides its tensors to resume, and how checkpoints hold both.
// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint holds model.safetensors (the weights, float32, by parameter name),
// optimizer.safetensors (moments "m." and "v." of each parameter, and "average." if the optimizer
// keeps one), state.json, and the task's own files such as the tokenizer.
#ifndef DTRAIN_TRAIN_TRAIN_STATE_H_
#define DTRAIN_TRAIN_TRAIN_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/optimizer_shards.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"
#include "dtrain/optim/loss_scaler.h"
#include "dtrain/runs/checkpoint.h"
#include "dtrain/train/task.h"

namespace dtrain {

// From where a run counts the updates to its last epoch.
struct EpochCount {
  int64_t updates_per_epoch = 0;  // 0: unknown
  // The update at which the run last resumed with another number of updates per epoch; 0: never.
  int64_t from_step = 0;
  double from_epochs = 0.0;  // epochs done until then
};

// The contents of state.json. Each part of a Trainer saves its own fields and restores them:
// RunProgress (step to seconds), DecisionQueue (optimizer_steps, skipped, loss_scaler),
// BestTracker, EarlyStop, Evaluator and RunPlan (epoch_count).
struct TrainState {
  int64_t step = 0;  // updates, skipped ones included
  int64_t optimizer_steps = 0;
  DataPosition position = {};
  int64_t target_tokens = 0;
  int64_t skipped = 0;
  double seconds = 0.0;  // training time
  std::string best_metric_name = {};
  double best_metric = 0.0;
  int64_t best_step = -1;  // -1: no evaluation yet
  std::string early_stop_metric_name = {};
  double early_stop_best = 0.0;
  int64_t early_stop_step = -1;
  int64_t stalled_evaluations = 0;
  bool evaluation_due = false;  // at this step, postponed by a requested stop
  int64_t evaluated_step = -1;  // the last update that was evaluated; -1: none
  std::string evaluation = {};  // how the best was measured: the task's Identity::evaluation
  EpochCount epoch_count = {};
  LossScalerState loss_scaler = {};
};

// Converts to and from the text of state.json. StorageError, which names `path`, if the text is not
// valid.
std::string StateToJson(const TrainState& state);
StatusOr<TrainState> StateFromJson(const std::string& text, const std::string& path);

// The files of a checkpoint. Tensors are views: model and optimizer must not change until the files
// are written. With a sharded optimizer the root makes the files. Their optimizer tensors come from
// the other ranks while they are written, so these ranks call shards->Serve() meanwhile.
std::vector<CheckpointFile> MakeCheckpointFiles(const TrainState& state, ParameterSet& parameters,
                                                Adam& adam, const std::vector<NamedFile>& files,
                                                OptimizerShards* shards = nullptr);

// Loads weights, moments, average and state into an allocated model and optimizer. StorageError
// names the first tensor whose name, shape or type does not match. With a sharded optimizer the
// root loads and sends the other ranks their shards; these call shards->Serve() meanwhile.
Status RestoreCheckpoint(const Checkpoint& checkpoint, ParameterSet& parameters, Adam& adam,
                         TrainState& state, OptimizerShards* shards = nullptr);

// Sends weights, moments, average and state from the root to all ranks, whether the root restored
// or initialised them. If `restored`, the root's result, is an error, all ranks return it
// (comm/root_status.h). With `shards`, RestoreCheckpoint() has already distributed the optimizer;
// before the first update the average begins at the root's weights. Collective.
Status ShareRestored(const Status& restored, ParameterSet& parameters, Adam& adam,
                     TrainState& state, Communicator& comm,
                     const OptimizerShards* shards = nullptr);

// Resumes a training loop of your own: all ranks receive the newest good checkpoint in the folder
// `directory`. The root alone reads it, and renames newer checkpoints that are damaged. Returns
// false if there is no checkpoint yet; then all ranks have the root's weights, moments and state.
// The loop continues at state.step and state.position. StorageError on all ranks if there are
// checkpoints but none is good, or the newest is of another model. Collective.
//
//   TrainState state;
//   DT_ASSIGN_OR_RETURN(const bool resumed,
//                       ResumeCheckpoint("ckpt", parameters, adam, state, comm));
StatusOr<bool> ResumeCheckpoint(const std::string& directory, ParameterSet& parameters, Adam& adam,
                                TrainState& state, Communicator& comm,
                                OptimizerShards* shards = nullptr);

// Loads the weights alone, for evaluation and translation, or their moving average if there is one.
// With `adapters_may_be_new`, adapters that the checkpoint does not have keep their first values.
Status LoadWeights(const Checkpoint& checkpoint, ParameterSet& parameters,
                   bool adapters_may_be_new = false);

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TRAIN_STATE_H_
