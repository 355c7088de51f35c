// bert.cc - BERT: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2019).
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "dtrain/models/encoder_family.h"
#include "dtrain/models/internal/bert_names.h"

namespace dtrain {

const EncoderFamily& BertFamily() {
  static constexpr std::array<std::string_view, 1> kNew = {"classifier."};
  static constexpr EncoderFamily kFamily{.name = "bert",
                                         .title = "BERT",
                                         .class_name = "Bert",
                                         .word_piece_class = "BertTokenizer",
                                         .encoder = "bert",
                                         .layers = "encoder.layer",
                                         .form = {.layers = internal::kBertLayerNames},
                                         .classifier = {.new_names = kNew},
                                         .has_next_sentence = true};
  return kFamily;
}

}  // namespace dtrain
