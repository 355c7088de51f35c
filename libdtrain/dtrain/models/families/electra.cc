// electra.cc - ELECTRA: Clark et al., "Pre-training Text Encoders as Discriminators" (2020).
// SPDX-License-Identifier: Apache-2.0
//
// BERT's encoder, whose embeddings may be narrower than its layers. Published folders hold the
// discriminator, which is fine-tuned, or the generator, which guesses masked words.
#include <array>

#include "dtrain/models/encoder_family.h"
#include "dtrain/models/internal/bert_names.h"

namespace dtrain {

const EncoderFamily& ElectraFamily() {
  static constexpr std::array<std::string_view, 1> kNew = {"classifier."};
  static constexpr EncoderFamily kFamily{
      .name = "electra",
      .title = "ELECTRA",
      .class_name = "Electra",
      .word_piece_class = "ElectraTokenizer",
      .encoder = "electra",
      .layers = "encoder.layer",
      .form = {.layers = internal::kBertLayerNames},
      .keys = {.embedding_size = "embedding_size"},
      .defaults = {.hidden_size = 256, .ffn_size = 1024, .num_heads = 4, .embedding_size = 128},
      .classifier = {.dense = "classifier.dense",
                     .activation = Activation::kGeluErf,
                     .drops_input = true,
                     .output = "classifier.out_proj",
                     .new_names = kNew},
      .masked_words = {.dense = "generator_predictions.dense",
                       .norm = "generator_predictions.LayerNorm",
                       .bias = "generator_lm_head.bias",
                       .activation = Activation::kGeluErf}};
  return kFamily;
}

}  // namespace dtrain
