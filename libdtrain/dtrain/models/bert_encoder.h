// bert_encoder.h - the encoder of BERT and its relatives: embeddings, a post-norm stack, a pooler.
// SPDX-License-Identifier: Apache-2.0
//
// Devlin et al., "BERT" (2019). Weights have the names and shapes of the family's model in Hugging
// Face's transformers: BertModel, DistilBertModel and so on.
//   embeddings: dropout(LayerNorm(word + position + type)), then a projection where the embeddings
//               are narrower than the layers
//   pooler:     activation(dense(first token))
#ifndef DTRAIN_MODELS_BERT_ENCODER_H_
#define DTRAIN_MODELS_BERT_ENCODER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dtrain/data/packed_texts.h"
#include "dtrain/device/sequences.h"
#include "dtrain/models/encoder_family.h"
#include "dtrain/nn/context.h"
#include "dtrain/nn/layer_norm.h"
#include "dtrain/nn/linear.h"
#include "dtrain/nn/parameter.h"
#include "dtrain/nn/transformer_layer.h"

namespace dtrain {

// The defaults are those of BERT base, uncased.
struct BertOptions {
  const EncoderFamily* family = &BertFamily();
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int num_layers = 12;
  int num_heads = 12;
  int64_t ffn_size = 3072;
  Activation activation = Activation::kGeluErf;
  int64_t max_positions = 512;  // length of the longest sequence
  int64_t type_vocab_size = 2;  // 0: tokens have no types
  int64_t embedding_size = 0;   // of the embeddings, 0 for hidden_size
  int64_t position_offset = 0;  // rows of the position table before the first token's
  float layer_norm_epsilon = 1e-12f;
  float dropout = 0.1f;             // on the embeddings and on each sublayer's output
  float attention_dropout = 0.1f;   // on the attention probabilities
  float initializer_range = 0.02f;  // initial standard deviation of all matrices

  // Width of the embeddings.
  int64_t embedding_width() const { return embedding_size > 0 ? embedding_size : hidden_size; }
  bool has_types() const { return type_vocab_size > 0; }
  bool has_projection() const { return embedding_width() != hidden_size; }
};

// The options of each layer, including names.
TransformerLayerOptions LayerOptionsOf(const BertOptions& options);

// A packed batch in device memory.
struct BertInputs {
  Tensor token_ids, type_ids, position_ids;  // [tokens], int32
  Sequences sequences;                       // with device_offsets(), and row_numbers() if the
                                             // batch has numbers
};

// The parts of a batch that go to the device. Pass them to Context::Upload() together with the
// model's other lists. `texts` and `row_numbers` (from NumberRows()) must outlive the result.
std::array<HostList, 5> ListsOf(const PackedTexts& texts, const std::vector<int32_t>& row_numbers);
// Builds the inputs from the first five tensors of the upload of ListsOf().
BertInputs InputsOf(const PackedTexts& texts, std::span<const Tensor> on_device);

// Parameters: word_embeddings, position_embeddings, token_type_embeddings if there are types, and
// LayerNorm.
class BertEmbeddings {
 public:
  BertEmbeddings(const Scope& scope, const BertOptions& options);

  // Returns [tokens, embedding_width()]. Keeps the ids while training.
  Tensor Forward(const BertInputs& inputs, Context& ctx);
  void Backward(const Tensor& dy, Context& ctx);

  // [vocab_size, embedding_width()]. An output projection may share it. Backward() reports its
  // gradient ready.
  Parameter& words() { return words_; }

 private:
  BertOptions options_;
  Parameter& words_;
  Parameter& positions_;
  Parameter* types_;  // null without types
  LayerNorm norm_;
  uint32_t dropout_site_;
  // From the last forward while training.
  Tensor token_ids_, type_ids_, position_ids_, row_numbers_;
};

class BertEncoder {
 public:
  // Parameters: embeddings.*, embeddings_project.* if the embeddings are narrower, and those of the
  // layers, under the family's names.
  BertEncoder(const Scope& scope, const BertOptions& options);

  const BertOptions& options() const { return options_; }
  Parameter& word_embeddings() { return embeddings_.words(); }
  // Returns the last layer's output, [tokens, hidden], or only the given `rows` of it. No sequence
  // may be longer than max_positions.
  Tensor Forward(const BertInputs& inputs, Context& ctx, const OutputRows* rows = nullptr);
  // Accumulates all parameter gradients of the last Forward. d_hidden has the shape of Forward's
  // result; `rows` must be the same.
  void Backward(Tensor d_hidden, const Sequences& sequences, Context& ctx,
                const OutputRows* rows = nullptr);

 private:
  BertOptions options_;
  BertEmbeddings embeddings_;
  std::optional<Linear> projection_;
  TransformerStack layers_;
  Tensor embedded_;  // the projection's input in the last forward while training
};

// The layer between the first token and what a classifier multiplies.
class BertPooler {
 public:
  // Parameters: those of a Linear called `name`, such as "bert.pooler.dense".
  BertPooler(const Scope& scope, std::string_view name, Activation activation,
             const BertOptions& options);

  // Returns dropout(activation(dense(first))): [sequences, hidden], where `first` has each
  // sequence's first token.
  Tensor Forward(const Tensor& first, const Dropout& dropout, Context& ctx);
  // Returns d_first. `dropout` must be the same as in Forward.
  Tensor Backward(const Tensor& dy, const Dropout& dropout, Context& ctx);

 private:
  Activation activation_;
  Linear dense_;
  Tensor first_, before_;  // dense's input and output in the last forward while training
};

}  // namespace dtrain

#endif  // DTRAIN_MODELS_BERT_ENCODER_H_
