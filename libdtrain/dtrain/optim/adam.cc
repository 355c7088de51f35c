// adam.cc - one fused update per range of equal weight decay; LAMB updates all at once.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/optim/adam.h"

#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/copy.h"
#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/ops/adam.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/lamb.h"
#include "dtrain/optim/step_state.h"

namespace dtrain {

Adam::Adam(ParameterSet& parameters, const AdamConfig& config)
    : Adam(parameters, config, {{0, parameters.size()}}) {}

Adam::Adam(ParameterSet& parameters, const AdamConfig& config, std::vector<ParameterRange> shard,
           std::function<void(Tensor& sums, Stream& stream)> add_up)
    : parameters_(parameters),
      config_(config),
      shard_(std::move(shard)),
      add_up_(std::move(add_up)) {
  parameters.CheckAllocated();
  CutRanges();
  int64_t elements = 0;
  for (const ParameterRange& range : shard_) elements += range.elements();
  DT_CHECK(config.trust_ratio == AdamConfig::TrustRatio::kNone || add_up_ ||
           elements == parameters.size())
      << "trust ratios need whole parameters, or the sums of the other shards";
  const Device device = parameters.weights().device();
  arena_ = Arena::Create(device, "optimizer");
  Stream stream(device);
  for (Tensor* state : {&m_, &v_}) {
    *state = Empty(*arena_, {elements}, DType::kFloat32);
    Zero(*state, stream);
  }
  if (config.ema_decay > 0.0f) {
    average_ = Empty(*arena_, {elements}, DType::kFloat32);
    BeginAverage(stream);
  }
  step_ = Empty(*arena_, {AdamStep::kValues}, DType::kFloat32);
  decay_ = Empty(*arena_, {1}, DType::kFloat32);
  if (config.trust_ratio != AdamConfig::TrustRatio::kNone) lamb_ = MakeTable(stream);
  stream.Synchronize();
}

void Adam::CutRanges() {
  int64_t state = 0;
  for (const ParameterRange& part : shard_) {
    bool is_new = true;
    for (const Parameter* parameter : parameters_.in_backward_order()) {
      const int64_t begin = std::max(part.begin, parameter->offset());
      const int64_t end = std::min(part.end, parameter->offset() + parameter->shape().elements());
      if (begin >= end) continue;
      const float decay = parameter->weight_decay() ? config_.weight_decay : 0.0f;
      if (is_new || ranges_.back().weight_decay != decay) {
        ranges_.push_back({begin, 0, decay, state + begin - part.begin});
      }
      ranges_.back().end = end;
      is_new = false;
    }
    state += part.elements();
  }
}

template <typename Body>
void Adam::ForAverages(const Body& body) {
  int64_t state = 0;
  for (const ParameterRange& part : shard_) {
    Tensor weights = parameters_.weights().Rows(part.begin, part.end);
    Tensor average = average_.Rows(state, state + part.elements());
    body(weights, average);
    state += part.elements();
  }
}

void Adam::BeginAverage(Stream& stream) {
  if (!average_) return;
  ForAverages([&](const Tensor& weights, Tensor& average) { Cast(weights, average, stream); });
}

std::shared_ptr<LambTable> Adam::MakeTable(Stream& stream) {
  std::vector<LambSegment> segments;
  for (const Parameter* parameter : parameters_.in_backward_order()) {
    const float decay = parameter->weight_decay() ? config_.weight_decay : 0.0f;
    segments.push_back(
        {.begin = parameter->offset(),
         .end = parameter->offset() + parameter->shape().elements(),
         .weight_decay = decay,
         .adapts = config_.trust_ratio == AdamConfig::TrustRatio::kAll || decay != 0.0f});
  }
  std::vector<LambPart> parts;
  for (const ParameterRange& range : shard_) parts.push_back({range.begin, range.end});
  return std::make_shared<LambTable>(MakeLambTable(segments, parts, *arena_, stream));
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
  if (lamb_ != nullptr) {
    LambTensors tensors = {.gradients = parameters_.gradients(),
                           .weights = parameters_.weights(),
                           .m = m_,
                           .v = v_,
                           .copy = parameters_.compute_weights()};
    LambUpdate(*lamb_, step,
               {.beta1 = config_.beta1, .beta2 = config_.beta2, .epsilon = config_.epsilon},
               tensors, stream, add_up_);
  } else {
    UpdateRanges(step, stream);
  }
  // With shards, whoever collects the weights does it.
  if (!is_sharded()) FrozenOf(parameters_).Compose(stream);
  if (!average_) return;
  ForAverages([&](const Tensor& weights, Tensor& average) {
    MovingAverage(weights, average_decay, average, stream);
  });
}

std::vector<float> Adam::TrustRatios(Stream& stream) const {
  return lamb_ != nullptr ? Download<float>(lamb_->ratios, stream) : std::vector<float>();
}

void Adam::UpdateRanges(const Tensor& step, Stream& stream) {
  AdamOptions options{.beta1 = config_.beta1, .beta2 = config_.beta2, .epsilon = config_.epsilon};
  for (const Range& range : ranges_) {
    const auto slice = [&](const Tensor& flat) {
      return flat ? flat.Rows(range.begin, range.end) : Tensor();
    };
    const auto state = [&](const Tensor& flat) {
      return flat.Rows(range.state, range.state + range.end - range.begin);
    };
    Tensor weights = slice(parameters_.weights());
    Tensor m = state(m_);
    Tensor v = state(v_);
    Tensor copy = slice(parameters_.compute_weights());
    (config_.decoupled ? options.weight_decay : options.l2) = range.weight_decay;
    AdamUpdate(slice(parameters_.gradients()), step, options, weights, m, v, copy, stream);
  }
}

void Adam::SwapAverage(Stream& stream) {
  if (!average_) return;
  // One piece at a time, because a second copy of all weights might not fit into memory.
  constexpr int64_t kPiece = int64_t{1} << 22;
  ForAverages([&](const Tensor& all_weights, const Tensor& all_average) {
    for (int64_t begin = 0; begin < all_weights.elements(); begin += kPiece) {
      const int64_t end = std::min(begin + kPiece, all_weights.elements());
      Tensor weights = all_weights.Rows(begin, end);
      Tensor average = all_average.Rows(begin, end);
      Tensor held = Empty(*arena_, {end - begin}, DType::kFloat32);
      CopyTensor(weights, held, stream);
      CopyTensor(average, weights, stream);
      CopyTensor(held, average, stream);
    }
  });
  stream.Synchronize();
  parameters_.RefreshComputeWeights();
}

}  // namespace dtrain
