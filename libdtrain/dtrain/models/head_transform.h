// head_transform.h - the layers of a head before its last product.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_MODELS_HEAD_TRANSFORM_H_
#define DTRAIN_MODELS_HEAD_TRANSFORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/layer_norm.h"
#include "dtrain/nn/linear.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/ops/activation.h"

namespace dtrain {

struct HeadTransformOptions {
  std::string_view dense = "";  // names of layers; their parameters add ".weight" and ".bias"
  std::string_view norm = "";   // "" for a head without a norm
  int64_t in = 768;
  int64_t out = 768;
  Activation activation = Activation::kTanh;
  bool has_biases = true;
  float layer_norm_epsilon = 1e-12f;
  float initializer_range = 0.02f;
};
// The layers before the scores of classes, for an encoder of these options.
HeadTransformOptions ClassifierTransformOf(const BertOptions& options);
// Those before the projection to the vocabulary.
HeadTransformOptions MaskedWordsTransformOf(const BertOptions& options);
// Number of elements of their parameters.
int64_t CountParameters(const HeadTransformOptions& options);

// y = dropout(norm(activation(dense(x)))). BERT's pooler is one without a norm (Devlin et al.
// 2019).
class HeadTransform {
 public:
  HeadTransform(const Scope& scope, const HeadTransformOptions& options);

  // x: [rows, in]. Returns [rows, out], of the same type.
  Tensor Forward(const Tensor& x, const Dropout& dropout, Context& ctx);
  // Returns dx, and may overwrite dy. `dropout` must be the same as in Forward.
  Tensor Backward(const Tensor& dy, const Dropout& dropout, Context& ctx);

 private:
  Activation activation_;
  Linear dense_;
  std::optional<LayerNorm> norm_;
  Tensor x_, before_;  // dense's input and output in the last forward while training
};

// The transform before the scores of single tokens. Absent in families that have none there.
std::optional<HeadTransform> TokenTransformOf(ParameterSet& parameters, const BertOptions& options);

// How the names of those parameters begin that pretrained weights may lack where tokens are
// classified or questions answered.
std::vector<std::string> NewTokenHeadsOf(const EncoderFamily& family);

}  // namespace dtrain

#endif  // DTRAIN_MODELS_HEAD_TRANSFORM_H_
