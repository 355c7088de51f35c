// train_state.h - the state of a run beside its tensors, and its way into and out of checkpoints.
// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint holds model.safetensors (the weights, names and shapes of the parameters, float32),
// optimizer.safetensors ("m.", "v." and, where kept, "average." of each), state.json and the task's
// own files (tokenizer, configuration).
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

// What a run's end in updates, where that was made of epochs, is counted from.
struct EpochCount {
  int64_t updates_per_epoch = 0;  // 0: not known
  // Where the run last went on with another number of them; 0: it never did.
  int64_t from_step = 0;
  double from_epochs = 0.0;  // done until then
};

// Everything beside tensors that a run needs to go on as if it had never stopped.
struct TrainState {
  int64_t step = 0;  // updates tried, skipped ones included
  int64_t optimizer_steps = 0;
  DataPosition position;
  int64_t target_tokens = 0;
  int64_t skipped = 0;
  double seconds = 0.0;  // of training
  std::string best_metric_name;
  double best_metric = 0.0;
  int64_t best_step = -1;  // -1: no evaluation yet
  std::string early_stop_metric_name;
  double early_stop_best = 0.0;
  int64_t early_stop_step = -1;
  int64_t stalled_evaluations = 0;
  bool evaluation_due = false;  // at this step, put off by a requested stop
  int64_t evaluated_step = -1;  // the last one with an evaluation
  std::string evaluation;       // what the best was measured by: the task's EvaluationContract()
  EpochCount epoch_count;
  LossScalerState loss_scaler;
};

// state.json's text, and back. StorageError, which names `path`, when it is not such a text.
std::string StateToJson(const TrainState& state);
StatusOr<TrainState> StateFromJson(const std::string& text, const std::string& path);

// The files of a checkpoint. Tensors are views: the model and optimizer must stay as they are until
// the files are written. Where the optimizer is sharded the root makes the files, whose optimizer
// tensors come from the other ranks while they are written; these serve `shards` meanwhile.
std::vector<CheckpointFile> MakeCheckpointFiles(const TrainState& state, ParameterSet& parameters,
                                                Adam& adam, const std::vector<NamedFile>& files,
                                                OptimizerShards* shards = nullptr);

// Loads weights, moments, average and state into an allocated model and optimizer. Names, shapes
// and types must match exactly; the StorageError names the first that does not. With `shards` on
// the root, which gives the other ranks their parts; these serve meanwhile.
Status RestoreCheckpoint(const Checkpoint& checkpoint, ParameterSet& parameters, Adam& adam,
                         TrainState& state, OptimizerShards* shards = nullptr);

// Gives all ranks what the root has restored, or begins with: weights, those of the compute type
// too, moments, average and state. `restored` is how that ended on the root; its error ends all
// ranks alike (comm/root_status.h). With `shards` RestoreCheckpoint() gave each rank its part of
// the optimizer; before the first update the average begins at the root's weights. Collective.
Status ShareRestored(const Status& restored, ParameterSet& parameters, Adam& adam,
                     TrainState& state, Communicator& comm,
                     const OptimizerShards* shards = nullptr);

// How a loop of one's own goes on: all ranks get the newest good checkpoint in the folder
// `directory`, which the root alone reads, and newer ones, which were refused, are put aside. False
// where there is none yet: then all ranks have the root's weights, moments and state. state.step
// and state.position say where the loop and its data go on. StorageError on all ranks where there
// are checkpoints but none is good, or that of another model. Collective.
//
//   TrainState state;
//   DT_ASSIGN_OR_RETURN(const bool resumed,
//                       ResumeCheckpoint("ckpt", parameters, adam, state, comm));
StatusOr<bool> ResumeCheckpoint(const std::string& directory, ParameterSet& parameters, Adam& adam,
                                TrainState& state, Communicator& comm,
                                OptimizerShards* shards = nullptr);

// Loads the weights alone, for evaluation and translation: their moving average where there is one.
Status LoadWeights(const Checkpoint& checkpoint, ParameterSet& parameters);

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TRAIN_STATE_H_
