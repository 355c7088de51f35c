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
  AddNorm(bert.hidden_size, gradients);
  for (const int64_t rows : {bert.type_vocab_size, bert.max_positions, bert.vocab_size}) {
    AddTable(rows, bert.hidden_size, gradients);
  }
  return gradients;
}

}  // namespace dtrain
