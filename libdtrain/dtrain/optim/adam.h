// adam.h - Adam, AdamW and LAMB over a model's parameters, with an optional average of the weights.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPTIM_ADAM_H_
#define DTRAIN_OPTIM_ADAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/device/arena.h"
#include "dtrain/device/stream.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/adam.h"
#include "dtrain/ops/lamb.h"

namespace dtrain {

// The kin of Adam by their configuration:
//   Adam          decoupled = false
//   AdamW         the defaults
//   BERT's AdamW  bias_correction = false, epsilon = 1e-6 (google-research/bert, optimization.py)
//   LAMB          trust_ratio = kDecayed, epsilon = 1e-6 (You et al. 2020, and NVIDIA's FusedLAMB)
//   NVLAMB        trust_ratio = kAll, and gradients clipped to a global norm of 1 beforehand
struct AdamConfig {
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  float weight_decay = 0.0f;    // of matrices only
  bool decoupled = true;        // AdamW; false adds the decay to the gradient (Adam with L2)
  bool bias_correction = true;  // false: the moments as they are
  // Which parameters' updates are scaled to the length of their weights: LAMB's, whose decay is
  // always decoupled.
  enum class TrustRatio {
    kNone,
    kDecayed,  // those with weight decay: none where weight_decay is 0, which leaves AdamW
    kAll
  };
  TrustRatio trust_ratio = TrustRatio::kNone;
  float ema_decay = 0.0f;  // of the averaged weights; 0 keeps no average

  // What is corrected for: 1 - 0^t is 1, so 0 leaves the moments as they are.
  float CorrectedBeta1() const { return bias_correction ? beta1 : 0.0f; }
  float CorrectedBeta2() const { return bias_correction ? beta2 : 0.0f; }
};

// Elements [begin, end) of the flat parameters.
struct ParameterRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t elements() const { return end - begin; }
};

// See ops/adam.h and ops/lamb.h for the updates. Owns the moments.
class Adam {
 public:
  // `parameters` must be allocated and outlive this.
  Adam(ParameterSet& parameters, const AdamConfig& config);
  // Updates a shard of them alone: `ranges`, ascending and disjoint, whose moments and average lie
  // one after another. Not with a trust ratio, which needs whole parameters.
  Adam(ParameterSet& parameters, const AdamConfig& config, std::vector<ParameterRange> shard);

  // One update as the device decided it (optim/step_state.h): `step` and `average_decay` are its
  // adam() and average_decay(). Whether it is one of steps() the host learns later: set_steps().
  void Step(const Tensor& step, const Tensor& average_decay, Stream& stream);
  // One update with gradients * gradient_scale, where the host decides alone. LAMB leaves its
  // update in place of the gradients.
  void Step(float learning_rate, float gradient_scale, Stream& stream);

  const AdamConfig& config() const { return config_; }
  bool is_sharded() const { return m_.elements() != parameters_.size(); }
  // Updates so far, as far as the host knows: t of the bias correction.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  // Flat, float32, laid out as the parameters: [parameters.size()], or [elements of the shard].
  Tensor& first_moments() { return m_; }
  Tensor& second_moments() { return v_; }
  // Absent unless ema_decay > 0. Its decay warms up: AverageDecayOf().
  Tensor& average() { return average_; }
  // Where there is one, it begins anew at the weights as they are now.
  void BeginAverage(Stream& stream);
  // Exchanges weights and average: before evaluating, and again after it. Of a shard alone.
  void SwapAverage(Stream& stream);
  // LAMB's ratio of each parameter at the last update, in backward order; empty without one.
  std::vector<float> TrustRatios(Stream& stream) const;

 private:
  // Neighbouring parameters with the same weight decay are updated as one range; `state` is where
  // its moments begin.
  struct Range {
    int64_t begin, end;
    float weight_decay;
    int64_t state;
  };

  void CutRanges();
  // body(weights, average) for each part of the shard.
  template <typename Body>
  void ForAverages(const Body& body);
  LambTable MakeTable(Stream& stream);
  void UpdateRanges(const Tensor& step, Stream& stream);

  ParameterSet& parameters_;
  AdamConfig config_;
  std::vector<ParameterRange> shard_;
  int64_t steps_ = 0;
  std::vector<Range> ranges_;
  LambTable lamb_;  // absent without a trust ratio
  std::shared_ptr<Arena> arena_;
  Tensor m_, v_, average_;
  Tensor step_, decay_;  // of an update the host decides
};

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_ADAM_H_
