// gradient_strategy.h - how ranks turn their gradients into an update: summed, sharded or local.
// SPDX-License-Identifier: Apache-2.0
//
//   const std::unique_ptr<GradientStrategy> strategy =
//       MakeGradientStrategy({.adam = {.weight_decay = 0.01f}}, {parameters, comm, timeline,
//       scale});
//   // In each update, after the gradients were set to zero:
//   DT_RETURN_IF_ERROR(strategy->BeginUpdate(tokens));
//   strategy->ListenTo([&] { model.Backward(ctx); });  // of the last micro-batch
//   strategy->FinishGradients();
//   strategy->SumOfSquares(squares, stream);
//   strategy->optimizer().Step(...);
//   strategy->GatherWeights(step, stream);
//
// Three strategies exist. Summed gradients: every rank applies the sum of all ranks' gradients.
// Sharded optimizer: the same, but each rank updates a shard of the parameters (ZeRO stage 1,
// optimizer_shards.h). Local updates: ranks update alone and average their weights now and then.
#ifndef DTRAIN_DISTRIBUTED_GRADIENT_STRATEGY_H_
#define DTRAIN_DISTRIBUTED_GRADIENT_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/timeline.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/optimizer_shards.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/optim/adam.h"
#include "dtrain/runs/checkpoint.h"

namespace dtrain {

struct GradientStrategyOptions {
  GradientReducerOptions reducer = {};  // with the stream that computes gradients on a GPU
  AdamConfig adam = {};
  bool shard_optimizer = false;
  int64_t sync_every = 1;        // above 1: local updates between two averages
  int64_t sync_every_start = 0;  // updates from summed gradients before that
};

// One rank's copy of the model and what it shares with the other ranks. All references, and the
// memory of gradient_scale, outlive a strategy.
struct Replica {
  ParameterSet& parameters;
  Communicator& comm;
  Timeline& timeline;     // notes exchanges
  Tensor gradient_scale;  // [1], float32: what multiplies the gradients, a power of two
};

// Except where noted, all ranks call each function in the same order.
class GradientStrategy {
 public:
  virtual ~GradientStrategy() = default;

  // The optimizer of this rank's parameters, or of its shard.
  virtual Adam& optimizer() = 0;

  // An update begins, with the losses of `tokens` tokens over all ranks; 0 if unknown. UsageError
  // if PowerSGD needs that number.
  virtual Status BeginUpdate(int64_t tokens) = 0;
  // Runs the backward pass that completes the gradients. Each of them may travel when it is
  // complete, while the pass still runs.
  virtual void ListenTo(const std::function<void()>& backward) = 0;
  // All gradients are complete: those of a recorded graph, which reports none of them.
  virtual void MarkAllReady() = 0;
  // Waits until the gradients are those that this rank applies.
  virtual void FinishGradients() = 0;

  // The number of tokens that this rank's update learns from: `own` of its own, `all` over all
  // ranks. Called once per update, before the optimizer's step.
  virtual int64_t CountTokens(int64_t /*own*/, int64_t all) { return all; }
  // squares: [2], float64 = SumOfSquares() (ops/reduce.h) of the gradients.
  virtual void SumOfSquares(Tensor& squares, Stream& stream);
  // After the optimizer's step of update `step`: every rank gets all weights, in the order of the
  // stream. See AwaitWeights().
  virtual void GatherWeights(int64_t /*step*/, Stream& /*stream*/) {}

  // Local updates. True if they start after update `step`; the caller then waits for the device's
  // decisions about earlier updates and calls StartLocalUpdates(), which returns a sentence for the
  // log or "".
  virtual bool StartsLocalUpdates(int64_t /*step*/) const { return false; }
  virtual std::string StartLocalUpdates() { return ""; }
  // An update of this rank was skipped: nothing was learned from its `own` tokens.
  virtual void DiscountTokens(int64_t /*own*/) {}
  // False between two averages, while the ranks' weights differ.
  virtual bool HasEqualReplicas() const { return true; }
  // Whether an average is due after update `step`.
  virtual bool IsAverageDue(int64_t /*step*/) const { return false; }
  // Weights, moments and average become their means over the ranks. Waits for the device.
  virtual void AverageReplicas(int64_t /*step*/) {}

  // Whether CheckReplicas() is due after update `step`, if wanted every `every` updates; 0: never.
  virtual bool IsReplicaCheckDue(int64_t step, int64_t every) const;
  // Warns if a part of the strategy would only start after the run has ended, at `planned_end`
  // updates; 0 if unknown.
  virtual void WarnOfLateStart(int64_t planned_end) const = 0;

  // Runs `work` on the root. Meanwhile the other ranks give it their shards of the optimizer, or
  // receive them. Returns the result of the work on the root, OK elsewhere.
  virtual Status OnRoot(const std::function<Status()>& work);
  // For train_state.h, inside OnRoot(), and AwaitWeights(). Null: every rank has the whole
  // optimizer.
  virtual OptimizerShards* shards() { return nullptr; }
  // Files of a checkpoint besides weights and optimizer.
  virtual std::vector<CheckpointFile> CheckpointFiles() = 0;
  // Continues after update `step` > 0 of the checkpoint folder `path`, which the root alone needs
  // to know. Returns a sentence for the log if the checkpoint's state is not used as it is; else
  // "".
  virtual StatusOr<std::string> Resume(const std::string& path, int64_t step) = 0;

 protected:
  explicit GradientStrategy(const Replica& replica) : replica_(replica) {}

  const Replica replica_;
};

// The host waits until the weights of the last update have come from all ranks, with the
// communicator's time-out. Call it before the host waits for that update's work on the device,
// which has no time-out. All ranks call it.
void AwaitWeights(GradientStrategy& strategy);

// Exchanges the weights of update `step` and their average on every rank, if the optimizer keeps
// one: before an evaluation, and again after it.
void SwapAverage(GradientStrategy& strategy, int64_t step, Stream& stream);

// CheckError if the options contradict each other: local updates need the whole optimizer and send
// no gradients that PowerSGD could compress. With one rank they make no difference.
std::unique_ptr<GradientStrategy> MakeGradientStrategy(const GradientStrategyOptions& options,
                                                       const Replica& replica);

}  // namespace dtrain

#endif  // DTRAIN_DISTRIBUTED_GRADIENT_STRATEGY_H_
