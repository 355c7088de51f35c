// sentiment_model.h - your own model from the library's layers: classifies praise and blame.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_EXAMPLES_CUSTOM_TRAINER_SENTIMENT_MODEL_H_
#define DTRAIN_EXAMPLES_CUSTOM_TRAINER_SENTIMENT_MODEL_H_

#include "dtrain/dtrain.h"
#include "reviews.h"

// A model owns its layers and pairs Forward with a mirror-image Backward.
class SentimentModel {
 public:
  SentimentModel(const dtrain::TransformerLayerOptions& options, const dtrain::Device& device,
                 dtrain::DType type)
      : positions_({.max_length = kMaxLength, .hidden_size = options.hidden_size}),
        embedding_(scope_ / "embedding",
                   {.vocab_size = kVocabSize, .hidden_size = options.hidden_size}, positions_),
        encoder_(scope_ / "encoder", options),
        classes_(scope_.Add("classes.weight", {2, options.hidden_size},
                            dtrain::Initializer::XavierUniform())),
        loss_(classes_, {}) {
    parameters_.Allocate(device, type, /*seed=*/1);
  }

  // predictions: [reviews], int32, receives the likelier class of each; absent while training.
  dtrain::LossSums Forward(const Reviews& batch, dtrain::Context& ctx,
                           dtrain::Tensor predictions = {}) {
    const dtrain::Tensor embedded = embedding_.Forward(batch.ids, batch.sequences, ctx);
    const dtrain::Tensor hidden = encoder_.Forward(embedded, Inputs(batch), ctx);
    const dtrain::Tensor first = dtrain::FirstToken(hidden, batch.sequences, ctx);
    return loss_.Forward(first, ctx.Upload(batch.labels), predictions, ctx);
  }

  void Backward(const Reviews& batch, dtrain::Context& ctx) {
    const dtrain::Tensor d_first = loss_.Backward();
    classes_.GradientReady();
    const dtrain::Tensor d_hidden = dtrain::FirstTokenBackward(d_first, batch.sequences, ctx);
    embedding_.Backward(encoder_.Backward(d_hidden, Inputs(batch), none_, ctx), ctx);
  }

  dtrain::ParameterSet& parameters() { return parameters_; }

 private:
  static dtrain::LayerInputs Inputs(const Reviews& batch) {
    return {batch.sequences, dtrain::Tensor(), batch.sequences};
  }

  dtrain::ParameterSet parameters_;
  dtrain::Scope scope_{parameters_, "sentiment"};
  dtrain::SinusoidalPositions positions_;
  dtrain::TokenEmbedding embedding_;
  dtrain::TransformerLayer encoder_;
  dtrain::Parameter& classes_;
  dtrain::OutputLoss loss_;
  dtrain::Tensor none_;
};

#endif  // DTRAIN_EXAMPLES_CUSTOM_TRAINER_SENTIMENT_MODEL_H_
