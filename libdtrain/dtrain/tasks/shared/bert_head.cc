// bert_head.cc - backward completes the head, the layers from last to first, and the embeddings.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/bert_head.h"

namespace dtrain {

void AddHeadTransform(const HeadTransformOptions& transform, GradientShapes& gradients) {
  if (!transform.norm.empty()) AddNorm(transform.out, gradients, transform.has_biases);
  AddLinear(transform.out, transform.in, gradients, transform.has_biases);
}

void AddTokenTransform(const BertOptions& encoder, GradientShapes& gradients) {
  if (!encoder.family->transforms_tokens) return;
  AddHeadTransform(ClassifierTransformOf(encoder), gradients);
}

GradientShapes GradientsOf(const BertHead& head) {
  const BertOptions& bert = head.encoder;
  GradientShapes gradients = head.gradients;
  const size_t of_head = gradients.size();
  const EncoderForm& form = bert.family->form;
  if (form.is_pre_norm()) AddNorm(bert.hidden_size, gradients, form.has_biases);
  const TransformerStackOptions stack = StackOptionsOf(bert);
  for (int i = stack.num_layers; i-- > 0;) AddLayer(LayerOptionsOf(stack, i), gradients);
  const int64_t width = bert.embedding_width();
  if (bert.has_projection()) AddLinear(bert.hidden_size, width, gradients);
  AddNorm(width, gradients, form.has_biases);
  if (bert.has_types()) AddTable(bert.type_vocab_size, width, gradients);
  if (bert.position_rows() > 0) AddTable(bert.position_rows(), width, gradients);
  AddTable(bert.vocab_size, width, gradients);
  if (bert.low_rank.rank > 0) Freeze(of_head, head.parameters.adapters, gradients);
  return gradients;
}

}  // namespace dtrain
