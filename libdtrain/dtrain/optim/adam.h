// adam.h - Adam, AdamW and LAMB, with an optional moving average of the weights.
// SPDX-License-Identifier: Apache-2.0
//
//   Adam adam(model.parameters(), {.weight_decay = 0.01f});
//   model.Backward(ctx);
//   adam.Step(/*learning_rate=*/1e-3f, /*gradient_scale=*/1.0f / 128, ctx.stream());
#ifndef DTRAIN_OPTIM_ADAM_H_
#define DTRAIN_OPTIM_ADAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dtrain/device/stream.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

class Arena;
struct LambTable;

// Settings of well-known optimizers:
//   Adam          decoupled = false
//   AdamW         the defaults
//   BERT's AdamW  bias_correction = false, epsilon = 1e-6 (google-research/bert, optimization.py)
//   LAMB          trust_ratio = kDecayed, epsilon = 1e-6 (You et al. 2020, and NVIDIA's FusedLAMB)
//   NVLAMB        trust_ratio = kAll, with gradients clipped to a global norm of 1 before
struct AdamConfig {
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  float weight_decay = 0.0f;    // applied to matrices only
  bool decoupled = true;        // true: AdamW; false: the decay is added to the gradient (Adam with
                                // L2)
  bool bias_correction = true;  // false: the moments are used without correction
  // Selects the parameters whose updates are scaled to the norm of their weights, as in LAMB. Decay
  // is always decoupled then.
  enum class TrustRatio {
    kNone,
    kDecayed,  // those with weight decay; if weight_decay is 0 there are none, and the result is
               // AdamW
    kAll
  };
  TrustRatio trust_ratio = TrustRatio::kNone;
  float ema_decay = 0.0f;  // decay of the averaged weights; 0 keeps no average

  // The beta used for bias correction. 0 means no correction, because 1 - 0^t is 1.
  float CorrectedBeta1() const { return bias_correction ? beta1 : 0.0f; }
  float CorrectedBeta2() const { return bias_correction ? beta2 : 0.0f; }
};

// Elements [begin, end) of the flat parameters.
struct ParameterRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t elements() const { return end - begin; }
};

// Updates a model's parameters and owns the moments. ops/adam.h and ops/lamb.h have the formulas.
class Adam {
 public:
  // `parameters` must be allocated and must outlive this object.
  Adam(ParameterSet& parameters, const AdamConfig& config);
  // Updates only a shard of the parameters: `shard`, ascending and disjoint. Their moments and
  // average are stored one after the other. Trust ratios need the norms of whole parameters: for
  // them add_up(sums, stream) adds the sums of the other shards, in the order of the stream. Each
  // Step() calls it once, except that on CPUs a skipped step does not.
  Adam(ParameterSet& parameters, const AdamConfig& config, std::vector<ParameterRange> shard,
       std::function<void(Tensor& sums, Stream& stream)> add_up = {});

  // Makes one update that the device has decided on (optim/step_state.h). `step` and
  // `average_decay` are the DeviceStep's adam() and average_decay(). The host learns later whether
  // the update was skipped, and then calls set_steps().
  void Step(const Tensor& step, const Tensor& average_decay, Stream& stream);
  // Makes one update with gradients * gradient_scale, decided by the host. LAMB overwrites the
  // gradients with its update.
  void Step(float learning_rate, float gradient_scale, Stream& stream);

  const AdamConfig& config() const { return config_; }
  bool is_sharded() const { return m_.elements() != parameters_.size(); }
  // Number of updates the host knows of: t in the bias correction.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  // Flat, float32, in the parameters' layout: [parameters.size()], or [elements of the shard].
  Tensor& first_moments() { return m_; }
  Tensor& second_moments() { return v_; }
  // Absent unless ema_decay > 0. The decay warms up, see AverageDecayOf().
  Tensor& average() { return average_; }
  // Restarts the average, if there is one, at the current weights.
  void BeginAverage(Stream& stream);
  // Swaps weights and average. Call it before and after an evaluation. With a shard, only its
  // elements are swapped.
  void SwapAverage(Stream& stream);
  // LAMB's ratio of each parameter in the last update, in backward order; empty without trust
  // ratios.
  std::vector<float> TrustRatios(Stream& stream) const;

 private:
  // Neighbouring parameters with the same weight decay, which are updated together. `state` is the
  // index of their first moment.
  struct Range {
    int64_t begin, end;
    float weight_decay;
    int64_t state;
  };

  void CutRanges();
  // Calls body(weights, average) for each part of the shard.
  template <typename Body>
  void ForAverages(const Body& body);
  std::shared_ptr<LambTable> MakeTable(Stream& stream);
  void UpdateRanges(const Tensor& step, Stream& stream);

  ParameterSet& parameters_;
  AdamConfig config_;
  std::vector<ParameterRange> shard_;
  std::function<void(Tensor&, Stream&)> add_up_;
  int64_t steps_ = 0;
  std::vector<Range> ranges_;
  std::shared_ptr<LambTable> lamb_;  // null without trust ratios
  std::shared_ptr<Arena> arena_;
  Tensor m_, v_, average_;
  Tensor step_, decay_;  // for updates that the host decides
};

}  // namespace dtrain

#endif  // DTRAIN_OPTIM_ADAM_H_
