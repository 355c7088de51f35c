// step_state.h - the per-update state on the device: loss scale, learning rate, decisions.
// SPDX-License-Identifier: Apache-2.0
//
// The gradients decide whether an update is skipped, how much it is clipped, and the next loss
// scale. If the host waited for them, the GPU would be idle in every update. So the device decides,
// in one small kernel between the gradients' norm and the optimizer, and the host learns the result
// later. On the CPU the same function runs on the same struct in host memory.
#ifndef DTRAIN_OPTIM_STEP_STATE_H_
#define DTRAIN_OPTIM_STEP_STATE_H_

#include <cstddef>
#include <cstdint>

#include "dtrain/device/buffer.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/adam.h"
#include "dtrain/optim/loss_scaler.h"

namespace dtrain {

// Settings that are the same in every update.
struct StepRules {
  LossScalerOptions loss_scaler;
  // While the loss scaler is on, gradients are those of loss scale / loss_scale_tokens * the sum of
  // losses; otherwise those of the sum of losses. A power of two.
  double loss_scale_tokens = 1.0;
  double clip_norm = 0.0;  // limit for the norm of the mean gradient; 0 for no limit
  float beta1 = 0.9f;      // beta of Adam's bias correction; 0 for no correction
  float beta2 = 0.999f;
  float average_decay = 0.0f;  // decay of the averaged weights
};

// Values of an update that the host knows.
struct UpdateInputs {
  double learning_rate = 0.0;
  // Number of tokens over all ranks; gradients are divided by it. 0 means that the update has no
  // data: nothing changes but the losses.
  double tokens = 1.0;
};

struct StepState {
  UpdateInputs inputs = {};
  // Sums over the micro-batches of this rank. Forward adds to them, Decide() resets them.
  double loss_sum = 0.0;
  double nll_sum = 0.0;
  // The members below are set by Decide().
  LossScalerState loss_scaler = {};
  int64_t optimizer_steps = 0;  // number of updates that were not skipped: t in the bias correction
  float loss_scale = 1.0f;      // factor of the losses in the next update
  AdamStep adam = {};
  float average_decay = 1.0f;  // decay for this update
  // Results of the last update, for the log.
  int32_t skipped = 0;
  double loss = 0.0;  // sum over this rank's tokens
  double nll = 0.0;
  double gradient_norm = 0.0;  // norm of the mean gradient, before clipping
};

// base^exponent by repeated squaring, with the same bits on every device.
constexpr double PowerOf(double base, int64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

// The values of update t, counted from 1.
constexpr AdamStep AdamStepOf(float beta1, float beta2, int64_t t, float learning_rate,
                              float gradient_scale) {
  return {.learning_rate = learning_rate,
          .gradient_scale = gradient_scale,
          .bias_correction1 = static_cast<float>(1.0 - PowerOf(double{beta1}, t)),
          .bias_correction2 = static_cast<float>(1.0 - PowerOf(double{beta2}, t)),
          .skip = 0.0f};
}

// The average's decay with a warm-up, min(decay, (1 + t) / (10 + t)), which reduces the weight of
// the initial values.
constexpr float AverageDecayOf(float decay, int64_t t) {
  const float warm =
      static_cast<float>((1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
  return decay < warm ? decay : warm;
}

constexpr double LossScaleOf(const StepRules& rules, const LossScalerState& state) {
  return rules.loss_scaler.on ? state.scale / rules.loss_scale_tokens : 1.0;
}

// Decides on an update. squares: the sum of squares of all gradients; root: its square root;
// broken: the number of gradients that are NaN or infinite.
constexpr void DecideStep(const StepRules& rules, double squares, double root, double broken,
                          StepState& state) {
  const bool is_empty = state.inputs.tokens == 0.0;
  const bool overflow = !is_empty && (broken > 0.0 || !(squares - squares == 0.0));
  const double unit = state.inputs.tokens * LossScaleOf(rules, state.loss_scaler);
  state.gradient_norm = is_empty ? 0.0 : root / unit;
  state.skipped = overflow ? 1 : 0;
  state.loss = state.loss_sum;
  state.nll = state.nll_sum;
  state.loss_sum = state.nll_sum = 0.0;
  if (!is_empty) {
    state.loss_scaler = UpdateLossScale(rules.loss_scaler, state.loss_scaler, overflow);
  }
  state.loss_scale = static_cast<float>(LossScaleOf(rules, state.loss_scaler));
  if (overflow || is_empty) {
    state.adam.skip = 1.0f;
    state.average_decay = 1.0f;
    return;
  }
  ++state.optimizer_steps;
  const bool is_long = rules.clip_norm > 0.0 && state.gradient_norm > rules.clip_norm;
  const double clip = is_long ? rules.clip_norm / state.gradient_norm : 1.0;
  state.adam =
      AdamStepOf(rules.beta1, rules.beta2, state.optimizer_steps,
                 static_cast<float>(state.inputs.learning_rate), static_cast<float>(clip / unit));
  state.average_decay = AverageDecayOf(rules.average_decay, state.optimizer_steps);
}

// Owns a StepState in device memory. All calls are ordered by the stream, and none waits.
class DeviceStep {
 public:
  DeviceStep(const Device& device, const StepRules& rules);

  // Sets the state at the start of a run, or after loading a checkpoint.
  void Reset(const LossScalerState& loss_scaler, int64_t optimizer_steps, Stream& stream);
  void SetInputs(const UpdateInputs& inputs, Stream& stream);
  // Decides on the update from squares(), which must hold SumOfSquares() of the gradients.
  void Decide(Stream& stream);
  // Copies the state to `to`, which is in host memory (pinned memory if the device is a GPU).
  void CopyTo(StepState* to, Stream& stream) const;

  // [2], float64.
  Tensor squares() const { return View(sizeof(StepState), 2, DType::kFloat64); }
  // Views of the state's members: [1], except adam: [AdamStep::kValues].
  Tensor loss_scale() const { return View(offsetof(StepState, loss_scale), 1, DType::kFloat32); }
  Tensor loss_sum() const { return View(offsetof(StepState, loss_sum), 1, DType::kFloat64); }
  Tensor nll_sum() const { return View(offsetof(StepState, nll_sum), 1, DType::kFloat64); }
  Tensor adam() const {
    return View(offsetof(StepState, adam), AdamStep::kValues, DType::kFloat32);
  }
  Tensor average_decay() const {
    return View(offsetof(StepState, average_decay), 1, DType::kFloat32);
  }

 private:
  Tensor View(size_t offset, int64_t count, DType dtype) const {
    return {memory_.data() + offset, {count}, dtype, device_};
  }
  StepState* state() const { return reinterpret_cast<StepState*>(memory_.data()); }

  Device device_;
  StepRules rules_;
  Buffer memory_;
};

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_STEP_STATE_H_
