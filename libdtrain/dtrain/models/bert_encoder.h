// bert_encoder.h - the encoder of BERT and its relatives: embeddings and a stack of layers.
// SPDX-License-Identifier: Apache-2.0
//
// Devlin et al., "BERT" (2019). Weights have the names and shapes of the family's model in Hugging
// Face's transformers: BertModel, DistilBertModel and so on.
//   embeddings: dropout(LayerNorm(word + position + type)), then a projection where the embeddings
//               are narrower than the layers
//   layers:     nn/transformer_layer.h, post-norm; or pre-norm and a norm behind the last one
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
  // For families with rotary positions. A layer sees the tokens up to local_attention / 2 away on
  // either side. Layers 0, n, 2n, ... with n = whole_every see whole texts, and have another theta.
  int64_t local_attention = 128;
  int whole_every = 3;
  float local_theta = 10000.0f;
  float whole_theta = 160000.0f;
  float layer_norm_epsilon = 1e-12f;
  float dropout = 0.1f;             // on the embeddings and on each sublayer's output
  float attention_dropout = 0.1f;   // on the attention probabilities
  float initializer_range = 0.02f;  // initial standard deviation of all matrices
  // With a rank, the encoder's own parameters are frozen, and only adapters and the head on the
  // encoder are trained.
  LowRankOptions low_rank = {};

  // Width of the embeddings.
  int64_t embedding_width() const { return embedding_size > 0 ? embedding_size : hidden_size; }
  bool has_types() const { return type_vocab_size > 0; }
  bool has_projection() const { return embedding_width() != hidden_size; }
  // Rows of the position table.
  int64_t position_rows() const {
    return family->form.has_rotary_positions ? 0 : position_offset + max_positions;
  }
};

// The options of the layers, including names.
TransformerStackOptions StackOptionsOf(const BertOptions& options);

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

// Parameters: word_embeddings, position_embeddings unless positions are rotary,
// token_type_embeddings if there are types, and LayerNorm; or the family's names.
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
  // Frees what Forward() kept.
  void Release();

  BertOptions options_;
  Parameter& words_;
  Parameter* positions_;  // null with rotary positions
  Parameter* types_;      // null without types
  LayerNorm norm_;
  uint32_t dropout_site_;
  // From the last forward while training.
  Tensor token_ids_, type_ids_, position_ids_, row_numbers_;
};

class BertEncoder {
 public:
  // Parameters: embeddings.*, embeddings_project.* if the embeddings are narrower, those of the
  // layers, and those of a norm behind pre-norm layers, under the family's names.
  BertEncoder(const Scope& scope, const BertOptions& options);

  const BertOptions& options() const { return options_; }
  Parameter& word_embeddings() { return embeddings_.words(); }
  // Returns the encoder's output, [tokens, hidden], or only the given `rows` of it. No sequence
  // may be longer than max_positions.
  Tensor Forward(const BertInputs& inputs, Context& ctx, const OutputRows* rows = nullptr);
  // Accumulates all parameter gradients of the last Forward. d_hidden has the shape of Forward's
  // result; `rows` must be the same.
  void Backward(Tensor d_hidden, const Sequences& sequences, Context& ctx,
                const OutputRows* rows = nullptr);

 private:
  // Returns the gradient of the last layer's output.
  Tensor BackwardFinalNorm(const Tensor& dy, const Sequences& sequences, Context& ctx,
                           const OutputRows* rows);

  BertOptions options_;
  BertEmbeddings embeddings_;
  std::optional<Linear> projection_;
  TransformerStack layers_;
  std::optional<LayerNorm> final_norm_;
  // From the last forward while training: the projection's input, and the positions of tokens.
  Tensor embedded_, position_ids_;
};

}  // namespace dtrain

#endif  // DTRAIN_MODELS_BERT_ENCODER_H_
