// parameter.cc - lays parameters out in backward order and initialises them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/parameter.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/base/random.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/cast.h"

namespace dtrain {
namespace {

// Groups start at a multiple of this many elements, for aligned vectors and 128-byte loads on GPUs.
constexpr int64_t kGroupAlignment = 32;

// FNV-1a hash. A parameter's initial values depend on its name, not on the model's other
// parameters.
uint32_t HashName(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

// Box and Muller (1958): computes one normal number from two uniform ones.
float NextNormal(RandomStream& random) {
  const float radius = std::sqrt(-2.0f * std::log(1.0f - random.NextUniform()));
  return radius * std::cos(2.0f * std::numbers::pi_v<float> * random.NextUniform());
}

}  // namespace

Tensor& Parameter::gradient() {
  if (is_stale_) Settle();
  return gradient_;
}

void Parameter::Settle() {
  Zero(gradient_, *set_->gradient_stream_);
  is_stale_ = false;
  --set_->num_stale_;
}

ProductGradient Parameter::TakeProductGradient(std::span<Parameter* const> parts,
                                               const Shape& shape) {
  const bool overwrites = std::all_of(parts.begin(), parts.end(),
                                      [](const Parameter* part) { return part->is_stale_; });
  for (Parameter* part : parts) {
    if (!part->is_stale_) continue;
    if (!overwrites) {
      part->Settle();
      continue;
    }
    part->is_stale_ = false;
    --part->set_->num_stale_;
  }
  return {.gradient = ParameterSet::Fused(parts.front()->gradient_, shape),
          .accumulate = !overwrites};
}

void Parameter::GradientReady() const {
  if (is_stale_) set_->backward_order_[static_cast<size_t>(index_)]->Settle();
  if (set_->listener_) set_->listener_(*this);
}

Parameter& ParameterSet::Add(std::string name, const Shape& shape, const Initializer& initializer,
                             int group) {
  DT_CHECK(!weights_) << "parameters must be added before Allocate()";
  DT_CHECK(Find(name) == nullptr) << "two parameters are named " << name;
  DT_CHECK(group >= 0 && group < num_groups_);
  Parameter& parameter = parameters_.emplace_back();
  parameter.name_ = std::move(name);
  parameter.shape_ = shape;
  parameter.initializer_ = initializer;
  parameter.group_ = group;
  parameter.set_ = this;
  return parameter;
}

void ParameterSet::Arrange() {
  if (!backward_order_.empty()) return;
  for (Parameter& parameter : parameters_) backward_order_.push_back(&parameter);
  // Later groups come first; within a group the order of Add() is kept.
  std::stable_sort(backward_order_.begin(), backward_order_.end(),
                   [](const Parameter* a, const Parameter* b) { return a->group_ > b->group_; });
  int group = -1;
  for (size_t i = 0; i < backward_order_.size(); ++i) {
    Parameter& parameter = *backward_order_[i];
    if (parameter.group_ != group) {
      size_ = (size_ + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
    }
    group = parameter.group_;
    parameter.index_ = static_cast<int>(i);
    parameter.offset_ = size_;
    size_ += parameter.shape_.elements();
  }
}

void ParameterSet::Allocate(const Device& device, DType compute_type, uint64_t seed) {
  DT_CHECK(!weights_) << "Allocate() must be called only once";
  Arrange();
  arena_ = Arena::Create(device, "parameters");
  Stream stream(device);
  weights_ = Empty(*arena_, {size_}, DType::kFloat32);
  gradients_ = Empty(*arena_, {size_}, DType::kFloat32);
  Zero(weights_, stream);
  Zero(gradients_, stream);
  if (compute_type != DType::kFloat32) compute_weights_ = Empty(*arena_, {size_}, compute_type);
  for (Parameter& parameter : parameters_) {
    const int64_t begin = parameter.offset_;
    const int64_t end = begin + parameter.shape_.elements();
    parameter.master_ = weights_.Rows(begin, end).Reshape(parameter.shape_);
    parameter.gradient_ = gradients_.Rows(begin, end).Reshape(parameter.shape_);
    parameter.value_ = compute_weights_
                           ? compute_weights_.Rows(begin, end).Reshape(parameter.shape_)
                           : parameter.master_;
    Upload<float>(InitialValues(parameter, seed), parameter.master_, stream);
  }
  stream.Synchronize();
  RefreshComputeWeights();
}

std::vector<float> ParameterSet::InitialValues(const Parameter& parameter, uint64_t seed) {
  RandomStream random({.seed = seed, .step = 0, .site = HashName(parameter.name_)});
  const Initializer& initializer = parameter.initializer_;
  const Shape& shape = parameter.shape_;
  std::vector<float> values(static_cast<size_t>(shape.elements()), initializer.value);
  if (initializer.kind == Initializer::Kind::kNormal) {
    for (float& value : values) value = initializer.value * NextNormal(random);
  } else if (initializer.kind != Initializer::Kind::kConstant) {
    const float bound = initializer.kind == Initializer::Kind::kUniform
                            ? initializer.value
                            : std::sqrt(6.0f / static_cast<float>(shape[0] + shape[1]));
    for (float& value : values) value = bound * (2.0f * random.NextUniform() - 1.0f);
  }
  if (initializer.zero_row >= 0) {
    const auto columns = static_cast<ptrdiff_t>(shape[1]);
    const auto begin = values.begin() + initializer.zero_row * columns;
    std::fill(begin, begin + columns, 0.0f);
  }
  return values;
}

void ParameterSet::BeginGradients(Stream& stream) {
  CheckAllocated();
  gradient_stream_ = &stream;
  num_stale_ = 0;
  // Padding is zero anyway, so neighbours are one range.
  std::vector<ElementRange> ranges;
  bool extends = false;
  for (Parameter* parameter : backward_order_) {
    parameter->is_stale_ = parameter->has_product_gradient_;
    num_stale_ += parameter->is_stale_ ? 1 : 0;
    const int64_t end = parameter->offset_ + parameter->shape_.elements();
    if (parameter->is_stale_) {
      extends = false;
    } else if (std::exchange(extends, true)) {
      ranges.back().end = end;
    } else {
      ranges.push_back({parameter->offset_, end});
    }
  }
  ZeroRanges(gradients_, ranges, stream);
}

void ParameterSet::SettleGradients(bool by_graph) {
  if (num_stale_ == 0) return;
  for (Parameter* parameter : backward_order_) {
    if (by_graph) parameter->is_stale_ = false;
    if (parameter->is_stale_) parameter->Settle();
  }
  num_stale_ = 0;
}

int64_t ParameterSet::num_elements() const {
  int64_t total = 0;
  for (const Parameter& parameter : parameters_) total += parameter.shape().elements();
  return total;
}

Parameter* ParameterSet::Find(std::string_view name) {
  const auto found = std::find_if(parameters_.begin(), parameters_.end(),
                                  [&](const Parameter& p) { return p.name() == name; });
  return found == parameters_.end() ? nullptr : &*found;
}

Tensor ParameterSet::Fused(const Tensor& first, const Shape& shape) {
  return {first.raw(), shape, first.dtype(), first.device()};
}

void ParameterSet::RefreshComputeWeights() {
  if (!compute_weights_) return;
  Stream stream(weights_.device());
  Cast(weights_, compute_weights_, stream);
  stream.Synchronize();
}

}  // namespace dtrain
