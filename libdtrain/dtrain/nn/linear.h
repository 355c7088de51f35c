// linear.h - a fully connected layer, and several that share their input as one product.
// SPDX-License-Identifier: Apache-2.0
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

// y = x W^T + b with W: [sum of outs, in]. `names` gives one weight and bias per part ("q_proj",
// "k_proj", "v_proj"), each [out, in] and [out], side by side in memory: one product computes all.
// Biases start at 0.
// Keeps nothing between forward and backward; the caller passes x again.
class Linear {
 public:
  Linear(const Scope& scope, std::span<const std::string_view> names, int64_t in, int64_t out,
         const Initializer& weights = Initializer::XavierUniform());
  Linear(const Scope& scope, std::string_view name, int64_t in, int64_t out,
         const Initializer& weights = Initializer::XavierUniform())
      : Linear(scope, std::span(&name, 1), in, out, weights) {}

  // Of this one's parts, `count` from `first` on: the same parameters.
  Linear Parts(size_t first, size_t count) const;

  // x: [rows, in] to [rows, outs].
  Tensor Forward(const Tensor& x, Context& ctx) const;
  // Without the bias, for callers whose next op adds it.
  Tensor ForwardNoBias(const Tensor& x, Context& ctx) const;

  // Gradients of weight and, unless the caller's op did that, bias; then dx = dy W, or dx += dy W.
  // An absent dx is not computed. Reports the weight ready, and the bias.
  struct BackwardOptions {
    bool bias_gradient = true;
    bool accumulate_dx = false;
    bool report_ready = true;
  };
  void Backward(const Tensor& x, const Tensor& dy, const BackwardOptions& options, Tensor& dx,
                Context& ctx) const;
  // Backward() in its parts, for callers whose op computes dx.
  void AccumulateGradients(const Tensor& x, const Tensor& dy, bool with_bias, Context& ctx) const;
  void GradientsReady() const;

  Tensor weight() const;
  Tensor bias() const;
  // [outs], float32, for ops that accumulate the bias gradient themselves.
  Tensor bias_gradient() const;
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  Linear() = default;

  int64_t in_ = 0;
  int64_t out_ = 0;  // of all parts
  std::vector<Parameter*> weights_;
  std::vector<Parameter*> biases_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_LINEAR_H_
