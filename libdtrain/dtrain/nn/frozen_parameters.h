// frozen_parameters.h - the weights of a model that are not trained, and low-rank changes to them.
// SPDX-License-Identifier: Apache-2.0
//
// A model is fine-tuned with few trained weights: those of its head and of low-rank adapters (Hu et
// al. 2021, "LoRA"). Frozen weights have no gradients and no moments, and do not travel between
// ranks.
//
// For the products, an adapter's W + scale B A is computed once per update and stored, so forward
// costs what it costs without adapters. Backward needs no gradient of W. From y = x (W + scale B
// A)^T follow
//   dB = scale dy^T (x A^T),  dA = scale (dy B)^T x
// with products that are small because the rank is.
#ifndef DTRAIN_NN_FROZEN_PARAMETERS_H_
#define DTRAIN_NN_FROZEN_PARAMETERS_H_

#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/device/tensor.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

// The two factors of a frozen matrix's change.
struct LowRankAdapter {
  Parameter* weight = nullptr;  // W: [out, in], frozen
  Parameter* a = nullptr;       // A: [rank, in]
  Parameter* b = nullptr;       // B: [out, rank]
  float scale = 1.0f;
  // scale A and scale B in the compute type.
  Tensor scaled_a = {}, scaled_b = {};
};

// Offsets of parameters in an arena: groups are aligned, and parameters of one group consecutive.
class GroupLayout {
 public:
  // Returns the offset of the next parameter, whose group is that of the previous one or a new one.
  int64_t Place(int group, int64_t elements);
  // The size so far.
  int64_t size() const { return size_; }

 private:
  int group_ = -1;
  int64_t size_ = 0;
};

// True if a linear layer of this name is one of LowRankOptions::targets.
bool IsTarget(std::string_view name, std::span<const std::string> targets);

// Owned by the ParameterSet, which calls SetOrder() and Allocate().
class FrozenParameters {
 public:
  // The frozen parameters, groups that were added last first.
  const std::vector<Parameter*>& order() const { return order_; }
  // The float32 weights of all of them, [size]; absent without frozen parameters. After changing
  // them call ParameterSet::RefreshComputeWeights().
  Tensor& weights() { return weights_; }

  const std::deque<LowRankAdapter>& adapters() const { return adapters_; }
  // Number of elements of all A and B.
  int64_t factor_elements() const;
  // Number of elements of the weights that adapters change, and of those they share a product with.
  int64_t composed_elements() const;
  // True for A or B of one of them.
  bool IsFactor(const Parameter& parameter) const;
  // Names of all frozen linear layers, adapted or not.
  const std::set<std::string>& linears() const { return linears_; }
  void NoteLinear(const std::string& name) { linears_.insert(name); }
  // Adds scale B A to a frozen weight. Call it before the memory is allocated.
  void Adapt(Parameter& weight, Parameter& a, Parameter& b, float scale);
  // Computes the adapted weights again, in the order of `stream`. Whoever changes the trained
  // weights calls it: the optimizer, or who collects its shards. Does nothing without adapters.
  void Compose(Stream& stream);

 private:
  friend class ParameterSet;
  void SetOrder(std::vector<Parameter*> order, int64_t size);
  void Allocate(Arena& arena, DType compute_type, Stream& stream);
  std::set<int> AdaptedGroups() const;
  void AllocateValues(Arena& arena, DType compute_type);
  void AllocateAdapters(Arena& arena, DType compute_type);
  void PlaceUnreadGradients(Arena& arena, Stream& stream);
  // Computes all values in the compute type from the float32 weights.
  void Refresh(Stream& stream);

  std::vector<Parameter*> order_;
  int64_t size_ = 0;
  Tensor weights_;
  Tensor compute_weights_;  // of all, unless the compute type is float32
  Tensor composed_;         // in float32: of the groups that have an adapter
  Tensor unread_;           // the gradients of frozen vectors
  std::deque<LowRankAdapter> adapters_;
  std::set<std::string> linears_;
  Tensor factor_, matrix_;  // of Compose(), float32: the largest scale A and W + scale B A
};

// The frozen parameters of a model.
inline FrozenParameters& FrozenOf(const ParameterSet& parameters) { return *parameters.frozen_; }
// The adapter of a frozen matrix; null for none.
inline const LowRankAdapter* AdapterOf(const Parameter& parameter) { return parameter.adapter_; }

}  // namespace dtrain

#endif  // DTRAIN_NN_FROZEN_PARAMETERS_H_
