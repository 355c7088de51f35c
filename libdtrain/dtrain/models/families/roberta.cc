// roberta.cc - RoBERTa: Liu et al. (2019), and XLM-RoBERTa: Conneau et al. (2020).
// SPDX-License-Identifier: Apache-2.0
//
// BERT's encoder with one type of tokens, another tokenizer, and positions that begin behind the
// padding token's row. XLM-RoBERTa is the same in 100 languages.
#include <array>

#include "dtrain/models/encoder_family.h"
#include "dtrain/models/internal/bert_names.h"

namespace dtrain {
namespace {

constexpr std::array<std::string_view, 1> kNew = {"classifier."};

constexpr EncoderFamily Family(std::string_view name, std::string_view title,
                               std::string_view class_name) {
  return {.name = name,
          .title = title,
          .class_name = class_name,
          .encoder = "roberta",
          .layers = "encoder.layer",
          .form = {.layers = internal::kBertLayerNames},
          .positions_follow_padding = true,
          .classifier = {.dense = "classifier.dense",
                         .drops_input = true,
                         .output = "classifier.out_proj",
                         .new_names = kNew},
          .masked_words = {.dense = "lm_head.dense",
                           .norm = "lm_head.layer_norm",
                           .bias = "lm_head.bias",
                           .activation = Activation::kGeluErf},
          .pairs_have_types = false};
}

}  // namespace

const EncoderFamily& RobertaFamily() {
  static constexpr EncoderFamily kFamily = Family("roberta", "RoBERTa", "Roberta");
  return kFamily;
}

const EncoderFamily& XlmRobertaFamily() {
  static constexpr EncoderFamily kFamily = Family("xlm-roberta", "XLM-RoBERTa", "XLMRoberta");
  return kFamily;
}

}  // namespace dtrain
