// bert_names.h - names of a layer's weights in BERT, which most of its relatives keep.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_MODELS_INTERNAL_BERT_NAMES_H_
#define DTRAIN_MODELS_INTERNAL_BERT_NAMES_H_

#include "dtrain/nn/transformer_layer.h"

namespace dtrain::internal {

inline constexpr LayerNames kBertLayerNames = {.self_attention = "attention",
                                               .attention = {.query = "self.query",
                                                             .key = "self.key",
                                                             .value = "self.value",
                                                             .output = "output.dense"},
                                               .attention_norm = "attention.output.LayerNorm",
                                               .fc1 = "intermediate.dense",
                                               .fc2 = "output.dense",
                                               .final_norm = "output.LayerNorm"};

}  // namespace dtrain::internal

#endif  // DTRAIN_MODELS_INTERNAL_BERT_NAMES_H_
