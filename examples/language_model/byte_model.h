// byte_model.h - a GPT over bytes: causal layers, tied embeddings, text generation.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_EXAMPLES_LANGUAGE_MODEL_BYTE_MODEL_H_
#define DTRAIN_EXAMPLES_LANGUAGE_MODEL_BYTE_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/dtrain.h"

// Ids are bytes, and one that begins every text.
inline constexpr int32_t kBegin = 256;
inline constexpr int64_t kByteVocabulary = 257;

struct ByteModelOptions {
  int64_t hidden_size = 128;
  int num_layers = 3;
  int num_heads = 4;
  int64_t window = 128;  // bytes a prediction may look back to
  float dropout = 0.1f;
};

// A packed batch of texts: the model reads ids and is to say targets, which are one byte ahead.
struct ByteBatch {
  std::vector<int32_t> ids = {};
  std::vector<int32_t> targets = {};
  std::vector<int32_t> offsets = {0};
  std::vector<int32_t> first_numbers = {};

  // `number`: of the text's first byte among all of the update's, by which dropout draws.
  void Add(std::string_view text, int32_t number);
  dtrain::Sequences sequences() const {
    dtrain::Sequences sequences(offsets);
    sequences.set_first_numbers(first_numbers);
    return sequences;
  }
};

class ByteModel {
 public:
  ByteModel(const ByteModelOptions& options, const dtrain::Device& device);
  ByteModel(const ByteModel&) = delete;
  ByteModel& operator=(const ByteModel&) = delete;

  const ByteModelOptions& options() const { return options_; }
  dtrain::ParameterSet& parameters() { return parameters_; }

  // Sums over the batch's bytes; while training, keeps what Backward needs.
  dtrain::LossSums Forward(const ByteBatch& batch, dtrain::Context& ctx);
  // Accumulates all gradients of the last Forward.
  void Backward(dtrain::Context& ctx);

  // `prompt` and what follows it, drawn byte by byte, up to the window. Not while training.
  std::string Generate(std::string_view prompt, dtrain::Context& ctx);

 private:
  dtrain::LayerInputs Inputs() const;

  ByteModelOptions options_;
  dtrain::ParameterSet parameters_;
  dtrain::Scope scope_{parameters_, "model"};
  dtrain::SinusoidalPositions positions_;
  dtrain::TokenEmbedding embedding_;
  dtrain::TransformerStack layers_;
  dtrain::LayerNorm final_norm_;
  dtrain::OutputLoss loss_;  // its matrix is the embedding's
  dtrain::Tensor none_;
  std::optional<dtrain::Sequences> sequences_;  // of the last forward
};

#endif  // DTRAIN_EXAMPLES_LANGUAGE_MODEL_BYTE_MODEL_H_
