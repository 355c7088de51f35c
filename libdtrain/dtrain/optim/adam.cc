// adam.cc - ranges of equal weight decay, one fused update each; LAMB all tensors in one.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/adam.h"

#include "dtrain/ops/adam.h"
#include "dtrain/ops/cast.h"
#include "dtrain/optim/step_state.h"
#include "dtrain/tensor/copy.h"

namespace dtrain {

Adam::Adam(ParameterSet& parameters, const AdamConfig& config)
    : parameters_(parameters), config_(config) {
  for (const Parameter* parameter : parameters.in_backward_order()) {
    const float decay = parameter->weight_decay() ? config.weight_decay : 0.0f;
    if (ranges_.empty() || ranges_.back().weight_decay != decay) {
      ranges_.push_back({parameter->offset(), 0, decay});
    }
    ranges_.back().end = parameter->offset() + parameter->shape().elements();
  }
  const Device device = parameters.weights().device();
  arena_ = Arena::Create(device, "optimizer");
  Stream stream(device);
  for (Tensor* state : {&m_, &v_}) {
    *state = Empty(*arena_, {parameters.size()}, DType::kFloat32);
    Zero(*state, stream);
  }
  if (config.ema_decay > 0.0f) {
    average_ = Empty(*arena_, {parameters.size()}, DType::kFloat32);
    Cast(parameters.weights(), average_, stream);
  }
  step_ = Empty(*arena_, {AdamStep::kValues}, DType::kFloat32);
  decay_ = Empty(*arena_, {1}, DType::kFloat32);
  if (config.trust_ratio != AdamConfig::TrustRatio::kNone) lamb_ = MakeTable(stream);
  stream.Synchronize();
}

LambTable Adam::MakeTable(Stream& stream) {
  std::vector<LambSegment> segments;
  for (const Parameter* parameter : parameters_.in_backward_order()) {
    const float decay = parameter->weight_decay() ? config_.weight_decay : 0.0f;
    segments.push_back(
        {.begin = parameter->offset(),
         .end = parameter->offset() + parameter->shape().elements(),
         .weight_decay = decay,
         .adapts = config_.trust_ratio == AdamConfig::TrustRatio::kAll || decay != 0.0f});
  }
  return MakeLambTable(segments, *arena_, stream);
}

void Adam::Step(float learning_rate, float gradient_scale, Stream& stream) {
  ++steps_;
  const AdamStep step = AdamStepOf(config_.CorrectedBeta1(), config_.CorrectedBeta2(), steps_,
                                   learning_rate, gradient_scale);
  const float decay = AverageDecayOf(config_.ema_decay, steps_);
  CopyToDevice(step_.data<float>(), &step, sizeof(step), stream);
  Upload<float>({&decay, 1}, decay_, stream);
  Step(step_, decay_, stream);
}

void Adam::Step(const Tensor& step, const Tensor& average_decay, Stream& stream) {
  if (lamb_.chunks) {
    LambTensors tensors = {.gradients = parameters_.gradients(),
                           .weights = parameters_.weights(),
                           .m = m_,
                           .v = v_,
                           .copy = parameters_.compute_weights()};
    LambUpdate(lamb_, step,
               {.beta1 = config_.beta1, .beta2 = config_.beta2, .epsilon = config_.epsilon},
               tensors, stream);
  } else {
    UpdateRanges(step, stream);
  }
  if (average_) MovingAverage(parameters_.weights(), average_decay, average_, stream);
}

std::vector<float> Adam::TrustRatios(Stream& stream) const {
  return lamb_.ratios ? Download<float>(lamb_.ratios, stream) : std::vector<float>();
}

void Adam::UpdateRanges(const Tensor& step, Stream& stream) {
  AdamOptions options{.beta1 = config_.beta1, .beta2 = config_.beta2, .epsilon = config_.epsilon};
  for (const Range& range : ranges_) {
    const auto slice = [&](const Tensor& flat) {
      return flat ? flat.Rows(range.begin, range.end) : Tensor();
    };
    Tensor weights = slice(parameters_.weights());
    Tensor m = slice(m_);
    Tensor v = slice(v_);
    Tensor copy = slice(parameters_.compute_weights());
    (config_.decoupled ? options.weight_decay : options.l2) = range.weight_decay;
    AdamUpdate(slice(parameters_.gradients()), step, options, weights, m, v, copy, stream);
  }
}

void Adam::SwapAverage(Stream& stream) {
  if (!average_) return;
  // A piece at a time: a second copy of all weights might not fit.
  constexpr int64_t kPiece = int64_t{1} << 22;
  for (int64_t begin = 0; begin < parameters_.size(); begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, parameters_.size());
    Tensor weights = parameters_.weights().Rows(begin, end);
    Tensor average = average_.Rows(begin, end);
    Tensor held = Empty(*arena_, {end - begin}, DType::kFloat32);
    CopyTensor(weights, held, stream);
    CopyTensor(average, weights, stream);
    CopyTensor(held, average, stream);
  }
  stream.Synchronize();
  parameters_.RefreshComputeWeights();
}

}  // namespace dtrain
