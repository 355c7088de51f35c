// linear.h - a fully connected layer, or several that share one input as a single product.
// SPDX-License-Identifier: Apache-2.0
//
//   ParameterSet parameters;
//   const Linear classes(Scope(parameters, "head"), "classes", /*in=*/64, /*out=*/2);
//   parameters.Allocate(ctx.device(), ctx.compute_type(), /*seed=*/1);
//   const Tensor x = ctx.Empty({8, 64});
//   const Tensor y = classes.Forward(x, ctx);  // [8, 2]
//   Tensor dx = ctx.Empty({8, 64});
//   classes.Backward(x, /*dy=*/y, {}, dx, ctx);
#ifndef DTRAIN_NN_LINEAR_H_
#define DTRAIN_NN_LINEAR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dtrain/nn/context.h"
#include "dtrain/nn/parameter.h"

namespace dtrain {

// y = x W^T + b with W: [sum of outs, in]. `names` gives the weight and bias of each part
// ("q_proj", "k_proj", "v_proj"), each [out, in] and [out]. Parts are consecutive in memory, so
// that one product computes all of them. Biases start at 0; without bias there are none and b is 0.
// In a scope with low-rank options the weights are frozen, and some have adapters, which are
// trained (nn/frozen_parameters.h): lora_A.weight and lora_B.weight beside the part's weight. The
// layer keeps nothing between forward and backward; the caller passes x again.
class Linear {
 public:
  Linear(const Scope& scope, std::span<const std::string_view> names, int64_t in, int64_t out,
         const Initializer& weights = Initializer::XavierUniform(), bool with_bias = true);
  Linear(const Scope& scope, std::string_view name, int64_t in, int64_t out,
         const Initializer& weights = Initializer::XavierUniform(), bool with_bias = true)
      : Linear(scope, std::span(&name, 1), in, out, weights, with_bias) {}

  // A layer made of `count` of these parts, from `first` on, which shares their parameters.
  Linear Parts(size_t first, size_t count) const;

  // x: [rows, in]. Returns [rows, outs].
  Tensor Forward(const Tensor& x, Context& ctx) const;
  // Like Forward(), without the bias, for callers whose next op adds it.
  Tensor ForwardNoBias(const Tensor& x, Context& ctx) const;

  // Options of Backward().
  struct BackwardOptions {
    bool bias_gradient = true;
    bool accumulate_dx = false;
    bool report_ready = true;
  };
  // Accumulates the gradient of the weight and, with bias_gradient, of a bias. Then dx = dy W, or
  // dx += dy W; an absent dx is not computed. Reports the weight and bias ready.
  void Backward(const Tensor& x, const Tensor& dy, const BackwardOptions& options, Tensor& dx,
                Context& ctx) const;
  // The two steps of Backward() other than dx, for callers whose own op computes dx.
  void AccumulateGradients(const Tensor& x, const Tensor& dy, bool with_bias, Context& ctx) const;
  void GradientsReady() const;

  Tensor weight() const;
  // Absent without bias.
  Tensor bias() const;
  // The gradient of the bias, [outs], float32, for ops that accumulate it themselves. Absent
  // without bias.
  Tensor bias_gradient() const;
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  Linear() = default;
  // The part of AccumulateGradients() where the weights are frozen.
  void AccumulateAdapters(const Tensor& x, const Tensor& dy, Context& ctx) const;

  int64_t in_ = 0;
  int64_t out_ = 0;  // of all parts together
  std::vector<Parameter*> weights_;
  std::vector<Parameter*> biases_;  // empty without bias
};

}  // namespace dtrain

#endif  // DTRAIN_NN_LINEAR_H_
