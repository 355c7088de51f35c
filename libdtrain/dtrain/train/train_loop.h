// train_loop.h - the loop of your own trainer: everything that all ranks must do alike.
// SPDX-License-Identifier: Apache-2.0
//
//   Adam adam(model.parameters(), {.weight_decay = 0.01f});
//   TrainLoop loop(comm, runtime.StopRequests(), ctx, model.parameters(), adam,
//                  {.directory = "mine",
//                   .updates = 20,
//                   .samples_per_epoch = 640,
//                   .samples_per_update = 64});
//   while (loop.NextUpdate()) {                              // resumes; stops on a signal
//     for (const SampleRange& part : loop.MicroBatches()) {  // this rank's samples
//       loop.Add(model.Forward(part, ctx));
//       model.Backward(ctx);  // gradients travel meanwhile
//     }
//     loop.Update();  // sum over ranks, clip, step
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
// All member functions but step() and IsEvery() are collective: every rank calls them alike.
#ifndef DTRAIN_TRAIN_TRAIN_LOOP_H_
#define DTRAIN_TRAIN_TRAIN_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"
#include "dtrain/optim/lr_schedule.h"

namespace dtrain {

struct StopFlags;

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

// The run. The same on all ranks.
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

// One run, from its first or its resumed update to its last.
class TrainLoop {
 public:
  // Resumes from the newest good checkpoint in options.directory, if there is one. Otherwise all
  // ranks begin with the weights of rank 0. All references must outlive the loop. `requests` are
  // what signals ask for; use Runtime::StopRequests(). CheckError if the options do not describe a
  // run, if the parameters are not allocated, or if `ctx` computes in float16, which needs a loss
  // scale: use bfloat16.
  TrainLoop(Communicator& comm, const StopFlags& requests, Context& ctx, ParameterSet& parameters,
            Adam& adam, const TrainLoopOptions& options);
  ~TrainLoop();
  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;

  // Saves what is due, then begins the next update and sets gradients to zero. Returns false at
  // the end of the run, after an error, and when a rank was asked to stop.
  bool NextUpdate();

  class Iterator;
  // The result of MicroBatches(). Walk over it once in an update: begin() and the iterator's ++
  // begin a part. end() changes nothing.
  struct Parts {
    TrainLoop& loop;
    Iterator begin() const;
    Iterator end() const;
  };
  // The micro-batches of the update that are not empty on this rank, for a range-based for loop.
  // While the last one's backward pass runs, finished gradients are already summed over the ranks.
  // Dropout draws by the numbers of the update and of the micro-batch, so a resumed run draws the
  // same.
  Parts MicroBatches() { return {*this}; }

  // Adds a micro-batch's losses to the update's.
  void Add(const LossSums& sums);

  // Ends the update: sums gradients and losses over all ranks, clips the mean gradient and applies
  // it. DivergedError if a gradient is infinite or NaN.
  void Update();

  // True after every `updates` updates.
  bool IsEvery(int64_t updates) const { return updates > 0 && step() % updates == 0; }

  // Measures the samples [first, first + count) for evaluation and prints the result on rank 0.
  // `measure` gets this rank's share and returns its part of the mean; dropout is off meanwhile.
  // The best checkpoint by the metric is kept as best-<metric>. Smaller is better if a word of the
  // metric's name says so, such as loss, error, wer or rmse. With several metrics, the run's first
  // one chooses.
  void Evaluate(const std::string& metric, int64_t first, int64_t count,
                const std::function<MeanParts(const SampleRange&)>& measure);

  // Saves the last update. Returns the first error, StoppedError after a requested stop, or
  // success.
  Status Finish();

  // Number of updates so far, those before a resumption included.
  int64_t step() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Walks over the parts that are not empty on this rank.
class TrainLoop::Iterator {
 public:
  SampleRange operator*() const;
  Iterator& operator++();
  bool operator!=(const Iterator& other) const { return part_ != other.part_; }

 private:
  friend struct Parts;
  Iterator(Impl& loop, int64_t part);

  Impl& loop_;
  int64_t part_;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_TRAIN_LOOP_H_
