// adam.cc - ranges of equal weight decay, one fused update each; LAMB all tensors in one.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/adam.h"

#include <algorithm>
#include <cmath>

#include "dtrain/ops/cast.h"
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
  scale_ = Empty(*arena_, {1}, DType::kFloat32);
  if (config.trust_ratio != AdamConfig::TrustRatio::kNone) {
    lamb_ = MakeTable(stream);
    lamb_step_ = Empty(*arena_, {LambStep::kValues}, DType::kFloat32);
  }
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
  const auto t = static_cast<double>(steps_);
  Upload<float>({&gradient_scale, 1}, scale_, stream);
  const auto correction = [&](float beta) {
    return config_.bias_correction ? static_cast<float>(1.0 - std::pow(double{beta}, t)) : 1.0f;
  };
  AdamOptions options{.learning_rate = learning_rate,
                      .beta1 = config_.beta1,
                      .beta2 = config_.beta2,
                      .epsilon = config_.epsilon,
                      .bias_correction1 = correction(config_.beta1),
                      .bias_correction2 = correction(config_.beta2)};
  if (lamb_.chunks) {
    LambTensors tensors = {.gradients = parameters_.gradients(),
                           .weights = parameters_.weights(),
                           .m = m_,
                           .v = v_,
                           .copy = parameters_.compute_weights()};
    const float step[LambStep::kValues] = {learning_rate, gradient_scale, options.bias_correction1,
                                           options.bias_correction2, /*skip=*/0.0f};
    Upload<float>(step, lamb_step_, stream);
    LambUpdate(lamb_, lamb_step_,
               {.beta1 = options.beta1, .beta2 = options.beta2, .epsilon = options.epsilon},
               tensors, stream);
  } else {
    UpdateRanges(options, stream);
  }
  if (average_) {
    const float decay = std::min(config_.ema_decay, static_cast<float>((1.0 + t) / (10.0 + t)));
    MovingAverage(parameters_.weights(), decay, average_, stream);
  }
}

std::vector<float> Adam::TrustRatios(Stream& stream) const {
  return lamb_.ratios ? Download<float>(lamb_.ratios, stream) : std::vector<float>();
}

void Adam::UpdateRanges(AdamOptions options, Stream& stream) {
  for (const Range& range : ranges_) {
    const auto slice = [&](const Tensor& flat) {
      return flat ? flat.Rows(range.begin, range.end) : Tensor();
    };
    Tensor weights = slice(parameters_.weights());
    Tensor m = slice(m_);
    Tensor v = slice(v_);
    Tensor copy = slice(parameters_.compute_weights());
    (config_.decoupled ? options.weight_decay : options.l2) = range.weight_decay;
    AdamUpdate(slice(parameters_.gradients()), scale_, options, weights, m, v, copy, stream);
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
