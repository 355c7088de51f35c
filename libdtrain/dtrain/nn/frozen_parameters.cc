// frozen_parameters.cc - memory of frozen weights, and the products that change them.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/frozen_parameters.h"

#include <algorithm>
#include <utility>

#include "dtrain/base/check.h"
#include "dtrain/device/arena.h"
#include "dtrain/device/copy.h"
#include "dtrain/ops/cast.h"
#include "dtrain/ops/gemm.h"

namespace dtrain {
namespace {

// Groups start at a multiple of this many elements, for aligned vectors and 128-byte loads on GPUs.
constexpr int64_t kGroupAlignment = 32;

// The first rows of `flat` as a tensor of `shape`.
Tensor Beginning(const Tensor& flat, const Shape& shape) {
  return flat.Rows(0, shape.elements()).Reshape(shape);
}

}  // namespace

int64_t GroupLayout::Place(int group, int64_t elements) {
  if (group != group_) size_ = (size_ + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
  group_ = group;
  return std::exchange(size_, size_ + elements);
}

bool IsTarget(std::string_view name, std::span<const std::string> targets) {
  return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
    if (target == LowRankOptions::kAllLinear || name == target) return true;
    return name.ends_with(target) && name[name.size() - target.size() - 1] == '.';
  });
}

void FrozenParameters::Adapt(Parameter& weight, Parameter& a, Parameter& b, float scale) {
  DT_CHECK(weight.is_frozen_ && !weights_);
  weight.adapter_ = &adapters_.emplace_back(LowRankAdapter{&weight, &a, &b, scale});
  a.MarkProductGradient();
  b.MarkProductGradient();
}

int64_t FrozenParameters::factor_elements() const {
  int64_t elements = 0;
  for (const LowRankAdapter& adapter : adapters_) {
    elements += adapter.a->shape().elements() + adapter.b->shape().elements();
  }
  return elements;
}

int64_t FrozenParameters::composed_elements() const {
  const std::set<int> groups = AdaptedGroups();
  int64_t elements = 0;
  for (const Parameter* parameter : order_) {
    if (groups.contains(parameter->group_)) elements += parameter->shape_.elements();
  }
  return elements;
}

std::set<int> FrozenParameters::AdaptedGroups() const {
  std::set<int> groups;
  for (const LowRankAdapter& adapter : adapters_) groups.insert(adapter.weight->group_);
  return groups;
}

bool FrozenParameters::IsFactor(const Parameter& parameter) const {
  return std::any_of(adapters_.begin(), adapters_.end(), [&](const LowRankAdapter& adapter) {
    return adapter.a == &parameter || adapter.b == &parameter;
  });
}

void FrozenParameters::SetOrder(std::vector<Parameter*> order, int64_t size) {
  order_ = std::move(order);
  size_ = size;
}

void FrozenParameters::Allocate(Arena& arena, DType compute_type, Stream& stream) {
  if (order_.empty()) return;
  weights_ = Empty(arena, {size_}, DType::kFloat32);
  Zero(weights_, stream);
  for (Parameter* parameter : order_) {
    const int64_t begin = parameter->offset_;
    parameter->master_ =
        weights_.Rows(begin, begin + parameter->shape_.elements()).Reshape(parameter->shape_);
    parameter->value_ = parameter->master_;
  }
  AllocateValues(arena, compute_type);
  AllocateAdapters(arena, compute_type);
  PlaceUnreadGradients(arena, stream);
}

void FrozenParameters::AllocateValues(Arena& arena, DType compute_type) {
  const bool is_float = compute_type == DType::kFloat32;
  // In float32 only the groups that change have values of their own.
  const std::set<int> groups = AdaptedGroups();
  GroupLayout layout;
  std::vector<std::pair<Parameter*, int64_t>> places;
  for (Parameter* parameter : order_) {
    if (is_float && !groups.contains(parameter->group_)) continue;
    places.emplace_back(parameter, layout.Place(parameter->group_, parameter->shape_.elements()));
  }
  if (places.empty()) return;
  Tensor& values = is_float ? composed_ : compute_weights_;
  values = Empty(arena, {layout.size()}, compute_type);
  for (const auto& [parameter, begin] : places) {
    parameter->value_ =
        values.Rows(begin, begin + parameter->shape_.elements()).Reshape(parameter->shape_);
  }
}

void FrozenParameters::AllocateAdapters(Arena& arena, DType compute_type) {
  int64_t factor = 0;
  int64_t matrix = 0;
  for (LowRankAdapter& adapter : adapters_) {
    adapter.scaled_a = Empty(arena, adapter.a->shape(), compute_type);
    adapter.scaled_b = Empty(arena, adapter.b->shape(), compute_type);
    factor = std::max({factor, adapter.a->shape().elements(), adapter.b->shape().elements()});
    matrix = std::max(matrix, adapter.weight->shape().elements());
  }
  if (adapters_.empty()) return;
  factor_ = Empty(arena, {factor}, DType::kFloat32);
  if (compute_type != DType::kFloat32) matrix_ = Empty(arena, {matrix}, DType::kFloat32);
}

// Kernels that compute the gradient of an input sum those of vectors on the way. For frozen vectors
// they write the sums where nobody reads them.
void FrozenParameters::PlaceUnreadGradients(Arena& arena, Stream& stream) {
  GroupLayout layout;
  std::vector<std::pair<Parameter*, int64_t>> places;
  for (Parameter* parameter : order_) {
    if (parameter->shape_.rank() != 1) continue;
    places.emplace_back(parameter, layout.Place(parameter->group_, parameter->shape_.elements()));
  }
  if (places.empty()) return;
  unread_ = Empty(arena, {layout.size()}, DType::kFloat32);
  Zero(unread_, stream);
  for (const auto& [parameter, begin] : places) {
    parameter->gradient_ = unread_.Rows(begin, begin + parameter->shape_.elements());
  }
}

void FrozenParameters::Refresh(Stream& stream) {
  for (Parameter* parameter : order_) {
    if (parameter->adapter_ != nullptr || parameter->value_.raw() == parameter->master_.raw()) {
      continue;
    }
    Cast(parameter->master_, parameter->value_, stream);
  }
  Compose(stream);
}

void FrozenParameters::Compose(Stream& stream) {
  for (LowRankAdapter& adapter : adapters_) {
    const auto scale_to = [&](const Tensor& values, Tensor& scaled) {
      Tensor factor = Beginning(factor_, values.shape());
      Cast(values, factor, stream);
      Scale(factor, adapter.scale, stream);
      Cast(factor, scaled, stream);
      return factor;
    };
    scale_to(adapter.b->master_, adapter.scaled_b);
    const Tensor factor = scale_to(adapter.a->master_, adapter.scaled_a);
    Parameter& weight = *adapter.weight;
    Tensor sum = matrix_ ? Beginning(matrix_, weight.shape_) : weight.value_;
    Cast(weight.master_, sum, stream);
    Gemm(adapter.b->master_, factor, {.accumulate = true}, sum, stream);
    if (matrix_) Cast(sum, weight.value_, stream);
  }
}

}  // namespace dtrain
