// encoder_family.h - what tells BERT and its relatives apart: names of weights, and heads.
// SPDX-License-Identifier: Apache-2.0
//
//   const EncoderFamily* family = FindEncoderFamily("distilbert");
//   BertOptions options{.family = family != nullptr ? family : &BertFamily()};
//
// All of them are an embedding of tokens, a stack of encoder layers, and a head for each task. Each
// family is described in a file of its own, models/families/NAME.cc, and nowhere else.
#ifndef DTRAIN_MODELS_ENCODER_FAMILY_H_
#define DTRAIN_MODELS_ENCODER_FAMILY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dtrain/nn/transformer_layer.h"
#include "dtrain/ops/activation.h"

namespace dtrain {

// The keys of config.json that describe the encoder; "" where the family has no such key.
struct EncoderKeys {
  std::string_view num_layers = "num_hidden_layers";
  std::string_view hidden_size = "hidden_size";
  std::string_view ffn_size = "intermediate_size";
  std::string_view num_heads = "num_attention_heads";
  std::string_view embedding_size = "";
  std::string_view type_vocab_size = "type_vocab_size";
  std::string_view activation = "hidden_act";
  std::string_view layer_norm_epsilon = "layer_norm_eps";
  std::string_view dropout = "hidden_dropout_prob";
  std::string_view attention_dropout = "attention_probs_dropout_prob";
  std::string_view classifier_dropout = "classifier_dropout";
  std::string_view pooling = "";  // whether classifiers read the first token or the mean of all
};

// The encoder's form, as far as it differs among families. The defaults are BERT's.
struct EncoderForm {
  std::string_view words = "word_embeddings";  // names below "embeddings"
  std::string_view embedding_norm = "LayerNorm";
  LayerNames layers = {};
  // True: tokens learn their positions from turned queries and keys (ops/rotary.h), and there is no
  // table of positions.
  bool has_rotary_positions = false;
  // Not empty: layers are pre-norm, and a norm of this name follows the last one. The first layer
  // has no norm before its attention, because its input comes from the embeddings' norm.
  std::string_view final_norm = "";
  bool is_gated = false;  // feed-forward blocks have gates (nn/feed_forward.h)
  // False: no norm and no product has a bias, except the last product of a head.
  bool has_biases = true;

  bool is_pre_norm() const { return !final_norm.empty(); }
};

// Values for keys that config.json leaves out: the defaults of the configuration class that the
// family has in transformers.
struct EncoderDefaults {
  int32_t num_layers = 12;
  int32_t hidden_size = 768;
  int32_t ffn_size = 3072;
  int32_t num_heads = 12;
  int32_t embedding_size = 0;  // 0: hidden_size
  int32_t position_rows = 512;
  int32_t type_vocab_size = 2;
  float layer_norm_epsilon = 1e-12f;
  float dropout = 0.1f;  // of all kinds
};

// The head that classifies whole texts. It reads x, the encoder's output at the first token of each
// text, or the mean of all its tokens, and computes
//   output(dropout(norm(activation(dense(x)))))
// With drops_input, dropout(x) takes the place of x.
struct ClassifierForm {
  // dense, norm and output are names of layers. Names of their parameters add ".weight" and
  // ".bias".
  std::string_view dense = "bert.pooler.dense";
  std::string_view norm = "";  // most families have none
  Activation activation = Activation::kTanh;
  bool drops_input = false;
  std::string_view output = "classifier";
  // How the names of those parameters begin that pretrained weights may lack. An encoder that was
  // trained for another task does not have them.
  std::span<const std::string_view> new_names = {};
};

// The head that guesses masked words: LayerNorm(activation(dense(x))) words^T + bias. x is the
// encoder's output at a masked token, `words` the table of word embeddings.
struct MaskedWordsForm {
  std::string_view dense = "cls.predictions.transform.dense";
  std::string_view norm = "cls.predictions.transform.LayerNorm";
  std::string_view bias = "cls.predictions.bias";
  // Absent: that of the layers. Some of transformers' classes have a fixed one here.
  std::optional<Activation> activation = std::nullopt;
};

// One family. All texts are static.
struct EncoderFamily {
  std::string_view name;        // model_type in config.json; model.family has "_" for its "-"
  std::string_view title;       // as messages print it: "RoBERTa"
  std::string_view class_name;  // how the names of transformers' classes begin
  // The class of transformers that reads a vocab.txt; "" where its AutoTokenizer finds none.
  std::string_view word_piece_class = "";
  std::string_view encoder;  // how the names of the encoder's parameters begin: "bert"
  std::string_view layers;   // what follows it in names of the layers: "encoder.layer"
  EncoderForm form = {};
  EncoderKeys keys = {};
  EncoderDefaults defaults = {};
  // True: the first token of a text uses row pad_token_id + 1 of the position table. The rows
  // before it are not used (Liu et al. 2019 trained so, in fairseq).
  bool positions_follow_padding = false;
  ClassifierForm classifier = {};
  // True: the classifier's dense, activation and norm also come before the scores of single tokens,
  // in token classification and question answering.
  bool transforms_tokens = false;
  std::string_view question_scores = "qa_outputs";  // the layer that scores a token as an answer's
                                                    // start and end
  MaskedWordsForm masked_words = {};
  // Tokens of a pair's second text have type 1 (token_type_ids). False: types do not tell the two
  // texts apart.
  bool pairs_have_types = true;
  bool has_next_sentence = false;  // pre-training may also guess whether one text follows another
};

const EncoderFamily& BertFamily();
const EncoderFamily& DistilBertFamily();
const EncoderFamily& ElectraFamily();
const EncoderFamily& ModernBertFamily();
const EncoderFamily& RobertaFamily();
const EncoderFamily& XlmRobertaFamily();

// All families, BERT first.
std::span<const EncoderFamily* const> EncoderFamilies();
// The family of a config.json's model_type, or null.
const EncoderFamily* FindEncoderFamily(std::string_view name);

}  // namespace dtrain

#endif  // DTRAIN_MODELS_ENCODER_FAMILY_H_
