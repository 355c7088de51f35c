// bert_head.cc - backward completes the head, the layers from last to first, and the embeddings.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/bert_head.h"

namespace dtrain {

GradientShapes GradientsOf(const BertHead& head) {
  const BertOptions& bert = head.encoder;
  GradientShapes gradients = head.gradients;
  for (int i = 0; i < bert.num_layers; ++i) {
    AddLayer(bert.hidden_size, bert.ffn_size, /*decoder=*/false, gradients);
  }
  const int64_t width = bert.embedding_width();
  if (bert.has_projection()) AddLinear(bert.hidden_size, width, gradients);
  AddNorm(width, gradients);
  if (bert.has_types()) AddTable(bert.type_vocab_size, width, gradients);
  AddTable(bert.position_offset + bert.max_positions, width, gradients);
  AddTable(bert.vocab_size, width, gradients);
  return gradients;
}

}  // namespace dtrain
