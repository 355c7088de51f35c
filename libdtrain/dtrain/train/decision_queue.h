// decision_queue.h - updates whose decisions the device makes and the host reads two updates later.
// SPDX-License-Identifier: Apache-2.0
//
//   DecisionQueue decisions(ctx, rules);
//   decisions.step().Decide(stream);  // on the device, after SumOfSquares() of the gradients
//   decisions.Push(update);
//   while (const std::optional<DecidedUpdate> decided = decisions.Pop(/*all=*/false)) ...
//
// On a GPU the host runs ahead of the device. Whether an update is skipped, its loss and its norm
// are therefore read two updates later (train/step_ring.h). Before an evaluation, a checkpoint and
// the end of the run the trainer reads all of them.
#ifndef DTRAIN_TRAIN_DECISION_QUEUE_H_
#define DTRAIN_TRAIN_DECISION_QUEUE_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "dtrain/base/status.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/nn/context.h"
#include "dtrain/optim/step_state.h"
#include "dtrain/train/issued_update.h"
#include "dtrain/train/step_ring.h"
#include "dtrain/train/train_state.h"

namespace dtrain {

struct DecidedUpdate {
  IssuedUpdate update;
  StepState decided;
};

class DecisionQueue {
 public:
  // The context outlives this.
  DecisionQueue(Context& ctx, const StepRules& rules);

  // The device's memory of the scale, the losses and the decision of the current update.
  DeviceStep& step() { return step_; }

  // The device has been given the work of `update`, up to DeviceStep::Decide().
  void Push(const IssuedUpdate& update);
  // The oldest update, once more are waiting than the device needs to stay busy; `all`: any update.
  // Waits until the device has decided about it.
  std::optional<DecidedUpdate> Pop(bool all);

  // As far as decisions were read:
  int64_t skipped() const { return skipped_; }
  int skipped_in_a_row() const { return skipped_in_a_row_; }
  int64_t optimizer_steps() const { return optimizer_steps_; }

  // After local updates ranks have decided differently. Makes them equal: the largest number of
  // steps has the smallest bias correction, and a scale that one rank found too large is too large.
  // All decisions must have been read. Collective.
  void AgreeAcrossRanks(Communicator& comm);
  // True if the last updates were skipped and the weights, not the loss scale, may be the reason.
  bool HasRecentOverflows() const;
  // DivergedError if too many updates in a row were skipped, up to update `step`. The message warns
  // of a checkpoint written meanwhile: `last_checkpoint` is its step, -1 if there is none.
  Status CheckDiverged(int64_t step, double learning_rate, int64_t last_checkpoint) const;

  void Save(TrainState& state) const;
  // Continues from a checkpoint's state.
  void Restore(const TrainState& state);

 private:
  Context& ctx_;
  StepRules rules_;
  DeviceStep step_;
  StepRing ring_;
  std::deque<IssuedUpdate> issued_;  // the updates whose decisions are in the ring
  LossScalerState loss_scaler_;
  int64_t optimizer_steps_ = 0;  // updates that were not skipped
  int64_t restored_steps_ = 0;   // those of them that a checkpoint had
  int64_t skipped_ = 0;
  int skipped_in_a_row_ = 0;
};

}  // namespace dtrain

#endif  // DTRAIN_TRAIN_DECISION_QUEUE_H_
