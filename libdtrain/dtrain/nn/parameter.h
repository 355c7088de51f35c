// parameter.h - a model's weights: named tensors in flat arenas, in backward order.
// SPDX-License-Identifier: Apache-2.0
//
//   ParameterSet parameters;
//   const Scope scope = Scope(parameters, "model") / "encoder";
//   Parameter& gate = scope.Add("gate", {64}, Initializer::Constant(1.0f));  // model.encoder.gate
//   parameters.Allocate(runtime.device, DType::kBFloat16, /*seed=*/1);
//   const Tensor value = gate.value();  // [64], bfloat16; gate.master() is float32
//
// Layers register their parameters in the order of the forward pass. The arenas store them in
// reverse order, like PyTorch's DDP. Gradients then become ready from the start of the arena to its
// end, so a communication bucket is a view and needs no copy.
#ifndef DTRAIN_NN_PARAMETER_H_
#define DTRAIN_NN_PARAMETER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/device/tensor.h"

namespace dtrain {

class Arena;
class FrozenParameters;
class Stream;
struct LowRankAdapter;

// The initial values of a parameter.
struct Initializer {
  // The distribution.
  enum class Kind { kConstant, kNormal, kUniform, kXavierUniform };
  Kind kind = Kind::kConstant;
  float value = 0.0f;     // the constant, the standard deviation, or the bound
  int64_t zero_row = -1;  // this row starts as zeros

  // All elements alike, and N(0, stddev^2).
  static Initializer Constant(float value) { return {Kind::kConstant, value}; }
  static Initializer Normal(float stddev) { return {Kind::kNormal, stddev}; }
  // U(-a, a) with a = sqrt(6 / (in + out)) for an [out, in] matrix (Glorot and Bengio 2010,
  // equation 16).
  static Initializer XavierUniform() { return {Kind::kXavierUniform, 0.0f}; }
};

// Low-rank adaptation of linear layers (Hu et al. 2021, "LoRA", section 4.1). A layer's weight W is
// frozen, and W + (alpha / rank) B A takes its place. A: [rank, in] starts as random values, B:
// [out, rank] as zeros; these two are trained.
struct LowRankOptions {
  int rank = 0;  // 0: no adaptation
  float alpha = 16.0f;
  // Names of the adapted layers, or their last parts: "query", or "attention.output.dense".
  // kAllLinear alone stands for every linear layer.
  std::vector<std::string> targets = {};

  static constexpr std::string_view kAllLinear = "all-linear";
};

// The place of a product's result, which is added to the contents if `accumulate`.
struct ProductGradient {
  Tensor gradient;
  bool accumulate = true;
};

// One named weight. Its tensors are views into the set's arenas and valid after Allocate().
class Parameter {
 public:
  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  // True for a table with a row per token, position or type (input and output embeddings). A batch
  // gives most of its rows little or no gradient. A low-rank approximation would not preserve that.
  bool is_embedding() const { return is_embedding_; }
  void MarkEmbedding() { is_embedding_ = true; }
  // True for matrices. Biases and layer norms have no weight decay.
  bool weight_decay() const { return shape_.rank() > 1; }
  // Index in ParameterSet::all(), and so in in_backward_order() unless the parameter is frozen.
  int index() const { return index_; }
  // First element of the parameter in the flat arenas, or in those of the frozen parameters.
  int64_t offset() const { return offset_; }
  // True for a parameter that is not trained (nn/frozen_parameters.h).
  bool is_frozen() const { return is_frozen_; }

  // The float32 weights, which the optimizer updates and checkpoints store.
  Tensor& master() { return master_; }
  // The weights in the compute type, which layers multiply with. In float32 this is the memory of
  // master(), unless the parameter has an adapter.
  const Tensor& value() const { return value_; }
  // Says that the gradient is a product, whose writer calls TakeProductGradient().
  void MarkProductGradient() { has_product_gradient_ = true; }
  // The gradient, float32. Backward accumulates into it. After ParameterSet::BeginGradients(), the
  // first call for a product gradient that no product has written sets it to zero. A frozen matrix
  // has none; that of a frozen vector is memory that nobody reads.
  Tensor& gradient();
  // Consecutive parameters of one group, whose gradients are one product: their gradients as one
  // tensor of `shape`, and whether the product is added. The product comes next on the stream.
  static ProductGradient TakeProductGradient(std::span<Parameter* const> parts, const Shape& shape);
  // Layers call this after backward has added this micro-batch's last contribution to the gradient.
  // Without effect for frozen parameters.
  void GradientReady() const;

 private:
  friend class FrozenParameters;
  friend class ParameterSet;
  friend const LowRankAdapter* AdapterOf(const Parameter& parameter);
  void Settle();

  std::string name_;
  Shape shape_;
  Initializer initializer_;
  bool is_embedding_ = false;
  bool has_product_gradient_ = false;
  bool is_stale_ = false;  // the gradient is still that of an earlier update
  bool is_frozen_ = false;
  const LowRankAdapter* adapter_ = nullptr;
  int group_ = 0;
  int index_ = 0;
  int64_t offset_ = 0;
  Tensor master_, value_, gradient_;
  class ParameterSet* set_ = nullptr;
};

// Owns all parameters of one model. The addresses of its parameters do not change.
class ParameterSet {
 public:
  ParameterSet();
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;
  ~ParameterSet();

  // Adds a parameter with a unique name. Parameters of the same `group` (from NewGroup()) are
  // consecutive in memory, in the order they were added, so that for example q, k and v are one
  // product. All parameters of a group are frozen, or none.
  Parameter& Add(std::string name, const Shape& shape, const Initializer& initializer, int group,
                 bool is_frozen = false);
  int NewGroup() { return num_groups_++; }
  // A number that no other dropout site of this model has.
  uint32_t NewSite() { return num_sites_++; }

  // Puts the parameters in order, without memory: for programs that only compare names and shapes.
  void Arrange();
  // Lays out and initialises the arenas. Gradients start as zeros. The same seed gives the same
  // values on every rank. Call it once.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  // Flat views of all parameters that are trained, [size()], including padding, which is always
  // zero.
  Tensor& weights() { return weights_; }
  // Throws CheckError before Allocate().
  void CheckAllocated() const {
    DT_CHECK(weights_) << "the parameters have no memory yet: Allocate() comes first";
  }
  // All gradients. Those that BeginGradients() left to products, and no product has written, are
  // set to zero first.
  Tensor& gradients() {
    if (num_stale_ > 0) SettleGradients();
    return gradients_;
  }
  // Begins an update: all gradients count as zero from here on. Those that products write
  // (Parameter::MarkProductGradient()) are not set to zero. The first product overwrites what an
  // earlier update has left there, which saves writing and reading them once. Backward, up to
  // SettleGradients(), must run on `stream`.
  void BeginGradients(Stream& stream);
  // Ends the first backward pass of an update: sets to zero what no product has written. With
  // `by_graph`, a recorded graph has done that.
  void SettleGradients(bool by_graph = false);
  // The weights in the compute type; absent in float32.
  Tensor& compute_weights() { return compute_weights_; }
  // The compute type passed to Allocate(). Contexts must have the same one.
  DType compute_type() const {
    return compute_weights_ ? compute_weights_.dtype() : DType::kFloat32;
  }
  int64_t size() const { return size_; }
  // Number of elements of all parameters, without padding.
  int64_t num_elements() const;
  // The parameters that are trained.
  const std::vector<Parameter*>& in_backward_order() const { return backward_order_; }
  // Those and then the frozen ones.
  std::vector<Parameter*> all() const;
  Parameter* Find(std::string_view name);

  // Copies the master weights to the compute weights. Call it after loading or broadcasting.
  void RefreshComputeWeights();

  // `listener` is called with each parameter whose gradient is ready; null removes it.
  void SetReadyListener(std::function<void(const Parameter&)> listener) {
    listener_ = std::move(listener);
  }

 private:
  friend class Parameter;
  friend FrozenParameters& FrozenOf(const ParameterSet& parameters);

  std::deque<Parameter> parameters_;
  std::vector<Parameter*> backward_order_;
  int num_groups_ = 0;
  uint32_t num_sites_ = 0;
  int64_t size_ = 0;
  std::shared_ptr<Arena> arena_;
  Tensor weights_, gradients_, compute_weights_;
  int num_stale_ = 0;                  // parameters whose is_stale_ is set
  Stream* gradient_stream_ = nullptr;  // of BeginGradients(), while there are any
  std::function<void(const Parameter&)> listener_;
  std::unique_ptr<FrozenParameters> frozen_;
};

// The parameters of a group, from `first` on, as one tensor of `shape`.
inline Tensor Fused(const Tensor& first, const Shape& shape) {
  return {first.raw(), shape, first.dtype(), first.device()};
}

// A prefix of parameter names while a model is built: Scope("model") / "encoder" / "layers.0".
class Scope {
 public:
  Scope(ParameterSet& parameters, std::string prefix)
      : parameters_(&parameters), prefix_(std::move(prefix)) {}

  Scope operator/(std::string_view name) const {
    Scope inner = *this;
    if (!prefix_.empty()) inner.prefix_ += '.';
    inner.prefix_ += name;
    return inner;
  }
  // The same scope, in which all parameters are frozen and linear layers with the names of targets
  // have adapters; with rank 0, as it is. `options` must outlive the scopes.
  Scope Adapted(const LowRankOptions& options) const {
    Scope adapted = *this;
    if (options.rank > 0) adapted.low_rank_ = &options;
    return adapted;
  }
  // Adds an adapter to a linear layer's weight, [out, in], which is this scope's "weight", where
  // the layer is one of the targets.
  void AddAdapter(Parameter& weight) const;
  // Adds a parameter in a new group.
  Parameter& Add(std::string_view name, const Shape& shape, const Initializer& initializer) const {
    return Add(name, shape, initializer, parameters_->NewGroup());
  }
  Parameter& Add(std::string_view name, const Shape& shape, const Initializer& initializer,
                 int group) const {
    return parameters_->Add((*this / name).prefix_, shape, initializer, group,
                            low_rank_ != nullptr);
  }
  int NewGroup() const { return parameters_->NewGroup(); }
  uint32_t NewSite() const { return parameters_->NewSite(); }

 private:
  ParameterSet* parameters_;
  std::string prefix_;
  const LowRankOptions* low_rank_ = nullptr;  // null: parameters are trained
};

}  // namespace dtrain

#endif  // DTRAIN_NN_PARAMETER_H_
