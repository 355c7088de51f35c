// distilbert.cc - DistilBERT: Sanh et al., "DistilBERT, a distilled version of BERT" (2019).
// SPDX-License-Identifier: Apache-2.0
//
// BERT with half the layers, without types of tokens and without a pooler.
#include <array>

#include "dtrain/models/encoder_family.h"

namespace dtrain {

const EncoderFamily& DistilBertFamily() {
  static constexpr std::array<std::string_view, 2> kNew = {"pre_classifier.", "classifier."};
  static constexpr EncoderFamily kFamily{
      .name = "distilbert",
      .title = "DistilBERT",
      .class_name = "DistilBert",
      .word_piece_class = "DistilBertTokenizer",
      .encoder = "distilbert",
      .layers = "transformer.layer",
      .form = {.layers = {.self_attention = "attention",
                          .attention = {.query = "q_lin",
                                        .key = "k_lin",
                                        .value = "v_lin",
                                        .output = "out_lin"},
                          .attention_norm = "sa_layer_norm",
                          .fc1 = "ffn.lin1",
                          .fc2 = "ffn.lin2",
                          .final_norm = "output_layer_norm"}},
      .keys = {.num_layers = "n_layers",
               .hidden_size = "dim",
               .ffn_size = "hidden_dim",
               .num_heads = "n_heads",
               .type_vocab_size = "",
               .activation = "activation",
               .layer_norm_epsilon = "",
               .dropout = "dropout",
               .attention_dropout = "attention_dropout",
               .classifier_dropout = "seq_classif_dropout"},
      .defaults = {.num_layers = 6, .type_vocab_size = 0},
      .classifier = {.dense = "pre_classifier", .activation = Activation::kRelu, .new_names = kNew},
      .masked_words = {.dense = "vocab_transform",
                       .norm = "vocab_layer_norm",
                       .bias = "vocab_projector.bias"},
      .pairs_have_types = false};
  return kFamily;
}

}  // namespace dtrain
