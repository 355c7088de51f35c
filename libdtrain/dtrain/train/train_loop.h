// train_loop.h - the loop of your own trainer: everything that all ranks must do alike.
// SPDX-License-Identifier: Apache-2.0
//
//   TrainLoop loop(runtime, context, model.parameters(), adam, {.directory = "runs/mine", ...});
//   while (loop.NextUpdate()) {                              // resumes; stops on a signal
//     for (const SampleRange& part : loop.MicroBatches()) {  // this rank's samples
//       loop.Add(model.Forward(MakeBatch(part), context));
//       model.Backward(context);                             // gradients travel meanwhile
//     }
//     loop.Update();                                         // sum over ranks, clip, step
//     if (loop.IsEvery(50)) loop.Evaluate("accuracy", dev_samples, measure);
//   }
//   return loop.Finish();
//
// The loop counts samples and leaves it to you what a sample is. An update takes the next
// `samples_per_update` samples of the epoch, and each rank takes its share of them, so that any
// number of ranks trains on the same updates.
//
// The first error ends the loop: NextUpdate() returns false from then on, all other calls do
// nothing, and Finish() returns the error. The loop's body needs no error handling of its own.
//
// All member functions but state() and IsEvery() are collective: every rank calls them alike.
#ifndef DTRAIN_TRAIN_TRAIN_LOOP_H_
#define DTRAIN_TRAIN_TRAIN_LOOP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/base/stop_flags.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"
#include "dtrain/optim/lr_schedule.h"
#include "dtrain/train/train_state.h"

namespace dtrain {

// The samples begin, begin + stride, begin + 2 * stride, ... below end.
struct SampleRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t stride = 1;
  bool empty() const { return begin >= end; }
};

// The parts of a mean: sums over ranks come before the division.
struct MeanParts {
  double sum = 0.0;
  double count = 0.0;
};

struct TrainLoopOptions {
  std::string directory = {};      // where checkpoints go; "" keeps none
  int64_t updates = 0;             // length of the whole run, resumed parts included
  int64_t samples_per_epoch = 0;   // an epoch's last update has what is left
  int64_t samples_per_update = 0;  // over all ranks and micro-batches
  int64_t micro_batches = 1;       // parts of an update; more parts need less memory
  LrScheduleOptions learning_rate = {};
  double clip_norm = 1.0;               // limit of the mean gradient's norm; 0 is no limit
  int64_t checkpoint_every = 100;       // updates; the last update is saved in any case
  int keep_last = 2;                    // checkpoints beside the best one
  int64_t check_replicas_every = 100;   // updates; compares the ranks' weights; 0 is never
  GradientReducerOptions reducer = {};  // wire type, PowerSGD
};

class TrainLoop {
 public:
  // Resumes from the newest good checkpoint in options.directory, if there is one. Otherwise all
  // ranks begin with the weights of rank 0. All references must outlive the loop. `requests` are
  // what signals ask for; use Runtime::StopRequests(). CheckError if the options do not describe a
  // run, if the parameters are not allocated, or if `ctx` computes in float16, which needs the loss
  // scaling of Trainer (train/trainer.h).
  TrainLoop(Communicator& comm, const StopFlags& requests, Context& ctx, ParameterSet& parameters,
            Adam& adam, const TrainLoopOptions& options);

  // Saves what is due, then begins the next update and sets gradients to zero. Returns false at
  // the end of the run, after an error, and when a rank was asked to stop.
  bool NextUpdate();

  // The micro-batches of the update that are not empty on this rank, for a range-based for loop.
  // While the last one's backward pass runs, finished gradients are already summed over the ranks.
  // Dropout draws by the numbers of the update and of the micro-batch, so a resumed run draws the
  // same.
  class Iterator;
  struct Parts {
    TrainLoop& loop;
    Iterator begin() const;
    Iterator end() const;
  };
  Parts MicroBatches() { return {*this}; }

  // Adds a micro-batch's losses to the update's.
  void Add(const LossSums& sums) { sums_ += sums; }

  // Ends the update: sums gradients and losses over all ranks, clips the mean gradient and applies
  // it. DivergedError if a gradient is infinite or NaN.
  void Update();

  // True after every `updates` updates.
  bool IsEvery(int64_t updates) const { return updates > 0 && state_.step % updates == 0; }

  // Measures the samples [first, first + count) for evaluation and prints the result on rank 0.
  // `measure` gets this rank's share and returns its part of the mean; dropout is off meanwhile.
  // The best checkpoint by the metric is kept as best-<metric>; SmallerIsBetter() says which
  // direction is better (train/task.h). With several metrics, the run's first one chooses.
  void Evaluate(const std::string& metric, int64_t first, int64_t count,
                const std::function<MeanParts(const SampleRange&)>& measure);

  // Saves the last update. Returns the first error, StoppedError after a requested stop, or
  // success.
  Status Finish();

  // Position, update and best metric, as they go into checkpoints.
  const TrainState& state() const { return state_; }

 private:
  SampleRange RangeOf(int64_t part) const;
  void BeginPart(int64_t part);
  void MarkAllReady();
  Status SaveIfDue();
  Status WriteCheckpoint();

  Communicator& comm_;
  const StopFlags& requests_;
  Context& ctx_;
  ParameterSet& parameters_;
  Adam& adam_;
  TrainLoopOptions options_;
  GradientReducer reducer_;
  TrainState state_;
  LossSums sums_;      // of this update and rank
  double loss_ = 0.0;  // mean of the last update, over all ranks
  bool is_stop_requested_ = false;
  bool is_save_due_ = false;
  bool is_saved_ = true;  // whether the last update's weights are in a checkpoint
  Status status_;
};

// Walks over the parts that are not empty on this rank.
class TrainLoop::Iterator {
 public:
  Iterator(TrainLoop& loop, int64_t part) : loop_(loop), part_(part) { SkipEmpty(); }
  SampleRange operator*() const { return loop_.RangeOf(part_); }
  Iterator& operator++() {
    ++part_;
    SkipEmpty();
    return *this;
  }
  bool operator!=(const Iterator& other) const { return part_ != other.part_; }

 private:
  void SkipEmpty();

  TrainLoop& loop_;
  int64_t part_;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TRAIN_LOOP_H_
