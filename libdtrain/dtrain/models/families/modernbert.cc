// modernbert.cc - ModernBERT: Warner et al., "Smarter, Better, Faster, Longer" (2024).
// SPDX-License-Identifier: Apache-2.0
//
// Pre-norm layers without biases, with gates and rotary positions. Two of three layers see only the
// tokens near each token, so that long texts stay cheap.
//
// transformers drops elements at other places: of the embeddings and behind the gate
// (embedding_dropout, mlp_dropout), and behind attention's product (attention_dropout). Published
// models are trained without dropout, and their settings are 0.
#include <array>

#include "dtrain/models/encoder_family.h"

namespace dtrain {

const EncoderFamily& ModernBertFamily() {
  static constexpr std::array<std::string_view, 2> kNew = {"head.", "classifier."};
  static constexpr EncoderFamily kFamily{
      .name = "modernbert",
      .title = "ModernBERT",
      .class_name = "ModernBert",
      .encoder = "model",
      .layers = "layers",
      .form = {.words = "tok_embeddings",
               .embedding_norm = "norm",
               .layers = {.self_attention = "attn",
                          .attention = {.output = "Wo", .input = "Wqkv"},
                          .attention_norm = "attn_norm",
                          .fc1 = "mlp.Wi",
                          .fc2 = "mlp.Wo",
                          .final_norm = "mlp_norm"},
               .has_rotary_positions = true,
               .final_norm = "final_norm",
               .is_gated = true,
               .has_biases = false},
      .keys = {.type_vocab_size = "",
               .activation = "hidden_activation",
               .layer_norm_epsilon = "norm_eps",
               .dropout = "embedding_dropout",
               .attention_dropout = "attention_dropout",
               .pooling = "classifier_pooling"},
      .defaults = {.num_layers = 22,
                   .ffn_size = 1152,
                   .position_rows = 8192,
                   .type_vocab_size = 0,
                   .layer_norm_epsilon = 1e-5f,
                   .dropout = 0.0f},
      .classifier = {.dense = "head.dense",
                     .norm = "head.norm",
                     .activation = Activation::kGeluErf,
                     .new_names = kNew},
      .transforms_tokens = true,
      .question_scores = "classifier",
      .masked_words = {.dense = "head.dense",
                       .norm = "head.norm",
                       .bias = "decoder.bias",
                       .activation = Activation::kGeluErf},
      .pairs_have_types = false};
  return kFamily;
}

}  // namespace dtrain
