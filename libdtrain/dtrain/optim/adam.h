// adam.h - Adam and AdamW over a model's parameters, with an optional average of the weights.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPTIM_ADAM_H_
#define DTRAIN_OPTIM_ADAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/device/arena.h"
#include "dtrain/device/stream.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

struct AdamConfig {
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  float weight_decay = 0.0f;  // of matrices only
  bool decoupled = true;      // AdamW; false adds the decay to the gradient (Adam with L2)
  float ema_decay = 0.0f;     // of the averaged weights; 0 keeps no average
};

// Bias-corrected; see ops/adam.h for the update. Owns the moments.
class Adam {
 public:
  // `parameters` must be allocated and outlive this.
  Adam(ParameterSet& parameters, const AdamConfig& config);

  // One update as the device decided it (optim/step_state.h): `step` and `average_decay` are its
  // adam() and average_decay(). Whether it is one of steps() the host learns later: set_steps().
  void Step(const Tensor& step, const Tensor& average_decay, Stream& stream);
  // One update with gradients * gradient_scale, where the host decides alone.
  void Step(float learning_rate, float gradient_scale, Stream& stream);

  // Updates so far, as far as the host knows: t of the bias correction.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  // Flat, [parameters.size()], float32, laid out as the parameters.
  Tensor& first_moments() { return m_; }
  Tensor& second_moments() { return v_; }
  // Absent unless ema_decay > 0. Its decay warms up: AverageDecayOf().
  Tensor& average() { return average_; }
  // Exchanges weights and average: before evaluating, and again after it.
  void SwapAverage(Stream& stream);

 private:
  // Neighbouring parameters with the same weight decay are updated as one range.
  struct Range {
    int64_t begin, end;
    float weight_decay;
  };

  ParameterSet& parameters_;
  AdamConfig config_;
  int64_t steps_ = 0;
  std::vector<Range> ranges_;
  std::shared_ptr<Arena> arena_;
  Tensor m_, v_, average_;
  Tensor step_, decay_;  // of an update the host decides
};

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_ADAM_H_
