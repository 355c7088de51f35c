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
#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/ops/cast.h"

namespace dtrain {
namespace {

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

std::vector<float> InitialValues(const std::string& name, const Shape& shape,
                                 const Initializer& initializer, uint64_t seed) {
  RandomStream random({.seed = seed, .step = 0, .site = HashName(name)});
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
  return {.gradient = Fused(parts.front()->gradient_, shape), .accumulate = !overwrites};
}

void Parameter::GradientReady() const {
  if (is_frozen_) return;
  if (is_stale_) set_->backward_order_[static_cast<size_t>(index_)]->Settle();
  if (set_->listener_) set_->listener_(*this);
}

ParameterSet::ParameterSet() : frozen_(std::make_unique<FrozenParameters>()) {}
ParameterSet::~ParameterSet() = default;

Parameter& ParameterSet::Add(std::string name, const Shape& shape, const Initializer& initializer,
                             int group, bool is_frozen) {
  DT_CHECK(!weights_) << "parameters must be added before Allocate()";
  DT_CHECK(Find(name) == nullptr) << "two parameters are named " << name;
  DT_CHECK(group >= 0 && group < num_groups_);
  Parameter& parameter = parameters_.emplace_back();
  parameter.name_ = std::move(name);
  parameter.shape_ = shape;
  parameter.initializer_ = initializer;
  parameter.group_ = group;
  parameter.is_frozen_ = is_frozen;
  parameter.set_ = this;
  return parameter;
}

void ParameterSet::Arrange() {
  if (!backward_order_.empty()) return;
  std::vector<Parameter*> frozen;
  for (Parameter& parameter : parameters_) {
    (parameter.is_frozen_ ? frozen : backward_order_).push_back(&parameter);
  }
  int index = 0;
  const auto place = [&](std::vector<Parameter*>& order) {
    // Later groups come first; within a group the order of Add() is kept.
    std::stable_sort(order.begin(), order.end(),
                     [](const Parameter* a, const Parameter* b) { return a->group_ > b->group_; });
    GroupLayout layout;
    for (Parameter* parameter : order) {
      parameter->index_ = index++;
      parameter->offset_ = layout.Place(parameter->group_, parameter->shape_.elements());
    }
    return layout.size();
  };
  size_ = place(backward_order_);
  const int64_t frozen_size = place(frozen);
  frozen_->SetOrder(std::move(frozen), frozen_size);
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
  for (Parameter* parameter : backward_order_) {
    const int64_t begin = parameter->offset_;
    const int64_t end = begin + parameter->shape_.elements();
    parameter->master_ = weights_.Rows(begin, end).Reshape(parameter->shape_);
    parameter->gradient_ = gradients_.Rows(begin, end).Reshape(parameter->shape_);
    parameter->value_ = compute_weights_
                            ? compute_weights_.Rows(begin, end).Reshape(parameter->shape_)
                            : parameter->master_;
  }
  frozen_->Allocate(*arena_, compute_type, stream);
  for (Parameter& parameter : parameters_) {
    Upload<float>(InitialValues(parameter.name_, parameter.shape_, parameter.initializer_, seed),
                  parameter.master_, stream);
  }
  stream.Synchronize();
  RefreshComputeWeights();
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

std::vector<Parameter*> ParameterSet::all() const {
  std::vector<Parameter*> all = backward_order_;
  all.insert(all.end(), frozen_->order().begin(), frozen_->order().end());
  return all;
}

void ParameterSet::RefreshComputeWeights() {
  Stream stream(weights_.device());
  if (compute_weights_) Cast(weights_, compute_weights_, stream);
  frozen_->Refresh(stream);
  stream.Synchronize();
}

void Scope::AddAdapter(Parameter& weight) const {
  if (low_rank_ == nullptr) return;
  FrozenParameters& frozen = FrozenOf(*parameters_);
  frozen.NoteLinear(prefix_);
  if (!IsTarget(prefix_, low_rank_->targets)) return;
  Scope trained = *this;
  trained.low_rank_ = nullptr;
  const int64_t rank = low_rank_->rank;
  const int64_t in = weight.shape()[1];
  // As torch.nn.Linear, and so the peft library, initialises A.
  const Initializer random{Initializer::Kind::kUniform, 1.0f / std::sqrt(static_cast<float>(in))};
  Parameter& a = trained.Add("lora_A.weight", {rank, in}, random);
  Parameter& b =
      trained.Add("lora_B.weight", {weight.shape()[0], rank}, Initializer::Constant(0.0f));
  frozen.Adapt(weight, a, b, low_rank_->alpha / static_cast<float>(rank));
}

}  // namespace dtrain
