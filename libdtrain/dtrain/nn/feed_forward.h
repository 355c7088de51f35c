// feed_forward.h - the position-wise feed-forward block: two products around an activation.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_NN_FEED_FORWARD_H_
#define DTRAIN_NN_FEED_FORWARD_H_

#include <cstdint>
#include <string_view>

#include "dtrain/nn/context.h"
#include "dtrain/nn/linear.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/linear_activation.h"

namespace dtrain {

struct FeedForwardOptions {
  int64_t hidden_size = 512;
  int64_t ffn_size = 2048;
  Activation activation = Activation::kRelu;
  bool gated = false;     // the form with a gate, below
  bool with_bias = true;  // of both products
  float dropout = 0.0f;   // after the activation
  std::string_view fc1_name = "fc1";
  std::string_view fc2_name = "fc2";
  Initializer weights = Initializer::XavierUniform();
};

// fc2(dropout(activation(fc1(x)))), Vaswani et al. 2017, equation 2. fc2's bias is not added here;
// the caller's next op adds it. Parameters: fc1 and fc2, or the names in the options.
//
// Gated: fc2(dropout(activation(a) g)), where fc1 has 2 * ffn_size outputs, first a and then g
// (Shazeer, "GLU Variants Improve Transformer", 2020, equation 6).
class FeedForward {
 public:
  FeedForward(const Scope& scope, const FeedForwardOptions& options);

  // x: [tokens, hidden]. Returns the same shape, without output().bias(). row_numbers: the tokens'
  // numbers, see Context::MakeDropout().
  Tensor Forward(const Tensor& x, const Tensor& row_numbers, Context& ctx);
  // dx is overwritten, or added to with accumulate_dx; it may share memory with d_out. Does not
  // compute the gradient of output()'s bias.
  void Backward(const Tensor& x, const Tensor& row_numbers, const Tensor& d_out, bool accumulate_dx,
                Tensor& dx, Context& ctx);
  const Linear& output() const { return fc2_; }
  // Frees the tensors that Forward kept.
  void Release();

 private:
  // True for relu, whose gradient needs only its output, so that the activation runs in place.
  bool in_place() const { return options_.activation == Activation::kRelu && !options_.gated; }
  Tensor ForwardGated(const Tensor& x, const Tensor& row_numbers, Context& ctx);
  void BackwardGated(const Tensor& x, const Tensor& row_numbers, const Tensor& d_out,
                     bool accumulate_dx, Tensor& dx, Context& ctx);
  LinearActivationOptions ActivationOptions(const Tensor& row_numbers, Context& ctx) const;

  FeedForwardOptions options_;
  uint32_t site_;
  Linear fc1_;
  Linear fc2_;
  LinearActivationSaved saved_;  // without `after` if that is computed again
};

}  // namespace dtrain

#endif  // DTRAIN_NN_FEED_FORWARD_H_
