// parameter.h - the weights of a model: named tensors in flat arenas, laid out in backward order.
// SPDX-License-Identifier: Apache-2.0
//
//   ParameterSet parameters;
//   Scope scope(parameters, "model.encoder");
//   Parameter& weight = scope.Add("fc1.weight", {2048, 512}, Initializer::XavierUniform());
//   parameters.Allocate(device, DType::kBFloat16, /*seed=*/1);
//
// Layers register their parameters in the order forward meets them; the arenas hold them the other
// way round, so that gradients become ready from the front of the arena to its end and a
// communication bucket is a view (DDP's reverse registration order).
#ifndef DTRAIN_NN_PARAMETER_H_
#define DTRAIN_NN_PARAMETER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/device/arena.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

// How a parameter starts.
struct Initializer {
  enum class Kind { kConstant, kNormal, kUniform, kXavierUniform };
  Kind kind = Kind::kConstant;
  float value = 0.0f;     // the constant, the standard deviation, or the bound
  int64_t zero_row = -1;  // this row starts (and stays) zero

  static Initializer Constant(float value) { return {Kind::kConstant, value}; }
  static Initializer Normal(float stddev) { return {Kind::kNormal, stddev}; }
  // U(-sqrt(6 / (in + out)), +) for an [out, in] matrix (Glorot and Bengio 2010, equation 16).
  static Initializer XavierUniform() { return {Kind::kXavierUniform, 0.0f}; }
};

// One named weight. Its tensors are views into the set's arenas, valid after Allocate().
class Parameter {
 public:
  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  // Of a table with a row per token, position or type (input and output embeddings): a batch gives
  // most of its rows little gradient or none, which an approximation of low rank does not keep so.
  bool is_embedding() const { return is_embedding_; }
  void MarkEmbedding() { is_embedding_ = true; }
  // Biases and layer norms take no weight decay.
  bool weight_decay() const { return shape_.rank() > 1; }
  // Position in ParameterSet::in_backward_order().
  int index() const { return index_; }
  // Elements from the start of the flat arenas.
  int64_t offset() const { return offset_; }

  // float32: what the optimizer updates and checkpoints hold.
  Tensor& master() { return master_; }
  // In the compute type: what layers multiply with; the same memory as master() in float32.
  const Tensor& value() const { return value_; }
  // float32; backward accumulates into it.
  Tensor& gradient() { return gradient_; }
  // The layer calls this when backward has added its last contribution of this micro-batch.
  void GradientReady() const;

 private:
  friend class ParameterSet;
  std::string name_;
  Shape shape_;
  Initializer initializer_;
  bool is_embedding_ = false;
  int group_ = 0;
  int index_ = 0;
  int64_t offset_ = 0;
  Tensor master_, value_, gradient_;
  class ParameterSet* set_ = nullptr;
};

// Owns all parameters of one model. Addresses of parameters are stable.
class ParameterSet {
 public:
  ParameterSet() = default;
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  // A new parameter; names are unique. Parameters of one `group` (from NewGroup()) lie side by side
  // in the order they were added, so that q, k and v project with one product.
  Parameter& Add(std::string name, const Shape& shape, const Initializer& initializer, int group);
  int NewGroup() { return num_groups_++; }
  // A number no other dropout site of this model has.
  uint32_t NewSite() { return num_sites_++; }

  // Lays out and initialises the arenas; gradients start at zero. Every rank gets the same values
  // from the same seed. Once.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  // Flat views over all parameters, [size()], padding included (always zero).
  Tensor& weights() { return weights_; }
  // CheckError before Allocate().
  void CheckAllocated() const {
    DT_CHECK(weights_) << "the parameters have no memory yet: Allocate() comes first";
  }
  Tensor& gradients() { return gradients_; }
  // Weights in the compute type; absent in float32.
  Tensor& compute_weights() { return compute_weights_; }
  // What layers compute in, as it was allocated; a context must have the same.
  DType compute_type() const {
    return compute_weights_ ? compute_weights_.dtype() : DType::kFloat32;
  }
  int64_t size() const { return size_; }
  // Sum of the parameters' elements, without padding.
  int64_t num_elements() const;
  const std::vector<Parameter*>& in_backward_order() const { return backward_order_; }
  Parameter* Find(std::string_view name);
  // The parameters first..last of one group as one tensor of `shape`.
  static Tensor Fused(const Tensor& first, const Shape& shape);

  // Copies masters into the compute weights: after loading or broadcasting.
  void RefreshComputeWeights();

  // Called with each parameter that backward finishes; null for none.
  void SetReadyListener(std::function<void(const Parameter&)> listener) {
    listener_ = std::move(listener);
  }

 private:
  friend class Parameter;
  static std::vector<float> InitialValues(const Parameter& parameter, uint64_t seed);

  std::deque<Parameter> parameters_;
  std::vector<Parameter*> backward_order_;
  int num_groups_ = 0;
  uint32_t num_sites_ = 0;
  int64_t size_ = 0;
  std::shared_ptr<Arena> arena_;
  Tensor weights_, gradients_, compute_weights_;
  std::function<void(const Parameter&)> listener_;
};

// A name prefix while a model is put together: Scope("model") / "encoder" / "layers.0".
class Scope {
 public:
  Scope(ParameterSet& parameters, std::string prefix)
      : parameters_(&parameters), prefix_(std::move(prefix)) {}

  Scope operator/(std::string_view name) const {
    return {*parameters_, prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name)};
  }
  // In a group of its own.
  Parameter& Add(std::string_view name, const Shape& shape, const Initializer& initializer) const {
    return Add(name, shape, initializer, parameters_->NewGroup());
  }
  Parameter& Add(std::string_view name, const Shape& shape, const Initializer& initializer,
                 int group) const {
    return parameters_->Add((*this / name).prefix_, shape, initializer, group);
  }
  int NewGroup() const { return parameters_->NewGroup(); }
  uint32_t NewSite() const { return parameters_->NewSite(); }

 private:
  ParameterSet* parameters_;
  std::string prefix_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_PARAMETER_H_
