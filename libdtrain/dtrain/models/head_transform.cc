// head_transform.cc - a product, an activation and perhaps a norm, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/head_transform.h"

#include "dtrain/ops/bias_activation.h"
#include "dtrain/ops/dropout_residual.h"

namespace dtrain {
namespace {

HeadTransformOptions TransformOf(const BertOptions& options) {
  return {.in = options.hidden_size,
          .out = options.hidden_size,
          .has_biases = options.family->form.has_biases,
          .layer_norm_epsilon = options.layer_norm_epsilon,
          .initializer_range = options.initializer_range};
}

}  // namespace

HeadTransformOptions ClassifierTransformOf(const BertOptions& options) {
  HeadTransformOptions transform = TransformOf(options);
  const ClassifierForm& form = options.family->classifier;
  transform.dense = form.dense;
  transform.norm = form.norm;
  transform.activation = form.activation;
  return transform;
}

HeadTransformOptions MaskedWordsTransformOf(const BertOptions& options) {
  HeadTransformOptions transform = TransformOf(options);
  transform.dense = options.family->masked_words.dense;
  transform.norm = options.family->masked_words.norm;
  transform.out = options.embedding_width();
  transform.activation = options.family->masked_words.activation.value_or(options.activation);
  return transform;
}

int64_t CountParameters(const HeadTransformOptions& options) {
  const int64_t biases = options.has_biases ? 1 : 0;
  const int64_t norm = options.norm.empty() ? 0 : (1 + biases) * options.out;
  return options.out * (options.in + biases) + norm;
}

HeadTransform::HeadTransform(const Scope& scope, const HeadTransformOptions& options)
    : activation_(options.activation),
      dense_(scope, options.dense, options.in, options.out,
             Initializer::Normal(options.initializer_range), options.has_biases) {
  if (options.norm.empty()) return;
  norm_.emplace(scope, options.norm, options.out, options.layer_norm_epsilon, options.has_biases);
}

std::optional<HeadTransform> TokenTransformOf(ParameterSet& parameters,
                                              const BertOptions& options) {
  if (!options.family->transforms_tokens) return std::nullopt;
  return HeadTransform(Scope(parameters, ""), ClassifierTransformOf(options));
}

std::vector<std::string> NewTokenHeadsOf(const EncoderFamily& family) {
  std::vector<std::string> names = {"classifier.", std::string(family.question_scores) + "."};
  if (family.transforms_tokens) {
    const auto own = family.classifier.new_names;
    names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

Tensor HeadTransform::Forward(const Tensor& x, const Dropout& dropout, Context& ctx) {
  const Tensor before = dense_.ForwardNoBias(x, ctx);
  Tensor y = ctx.Empty(before.shape());
  BiasActivationForward(before, dense_.bias(), activation_, norm_ ? Dropout{} : dropout, y,
                        ctx.stream());
  if (ctx.training()) {
    x_ = x;
    before_ = before;
  }
  if (!norm_) return y;
  y = norm_->Forward(y, ctx);
  if (dropout.probability > 0.0f) {
    DropoutResidualForward(y, Tensor(), Tensor(), dropout, y, ctx.stream());
  }
  return y;
}

Tensor HeadTransform::Backward(const Tensor& dy, const Dropout& dropout, Context& ctx) {
  DT_CHECK(before_) << "Backward() without Forward()";
  Tensor d = dy;
  if (norm_) {
    Tensor none;
    if (dropout.probability > 0.0f) DropoutResidualBackward(dy, dropout, d, none, ctx.stream());
    d = norm_->Backward(d, Tensor(), ctx);
    norm_->Release();
  }
  Tensor d_before = ctx.Empty(before_.shape());
  Tensor d_bias = dense_.bias_gradient();
  BiasActivationBackward(d, before_, dense_.bias(), activation_, norm_ ? Dropout{} : dropout,
                         d_before, d_bias, ctx.stream());
  before_ = Tensor();
  Tensor dx = ctx.Empty({d_before.dim(0), dense_.in()});
  dense_.Backward(x_, d_before, {.bias_gradient = false}, dx, ctx);
  x_ = Tensor();
  return dx;
}

}  // namespace dtrain
