// head.h - BERT that guesses hidden tokens, and whether one text follows another.
// SPDX-License-Identifier: Apache-2.0
//
//   BertPretraining model({.bert = {}, .next_sentence = true});
//   model.Allocate(device, DType::kFloat32, /*seed=*/1);
//   const LossSums sums = model.Forward(batch, ctx);
//   model.Backward(ctx);
//
// Devlin et al., "BERT" (2019), section 3.1. Weights are named and shaped as in Hugging Face's
// BertForPreTraining, or without the next sentence as in its BertForMaskedLM: bert.*,
// cls.predictions.transform.*, cls.predictions.bias, cls.seq_relationship.*. The projection to the
// vocabulary is bert.embeddings.word_embeddings.weight itself:
//   tokens:        LayerNorm(activation(dense(hidden))) words^T + bias
//   next sentence: seq_relationship(pooler(hidden)), 0 is next, 1 is random
// The last layer computes masked tokens and each text's first one alone; only the masked ones are
// transformed and projected.
#ifndef DTRAIN_TASKS_PRETRAINING_HEAD_H_
#define DTRAIN_TASKS_PRETRAINING_HEAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/nn/output_loss.h"
#include "dtrain/tasks/pretraining/batch.h"

namespace dtrain {

struct BertPretrainingOptions {
  BertOptions bert;
  bool next_sentence = true;  // false: batches without next_labels; no pooler either
};

// A PretrainingBatch in the memory of the model's device.
struct PretrainingInputs {
  BertInputs text = {};
  OutputRows read = {};                      // first and masked tokens
  Tensor masked_rows = {}, masked_ids = {};  // [masked], int32: rows among those, and ids
  // [n, 1] and [n], float32; absent without the next sentence.
  Tensor next_labels = {}, next_weights = {};
};

// What the model says of a batch.
struct PretrainingOutputs {
  std::vector<int32_t> predictions;  // [masked]: the best id for each
  // [n, 2], the shares of "is next" and "is random", and [n]: the losses, without weights. Empty
  // without the next sentence.
  std::vector<float> next_probabilities;
  std::vector<float> next_losses;
};

// The way from hidden states of masked tokens to what is projected to the vocabulary.
class BertPredictionTransform {
 public:
  // Parameters: dense, LayerNorm.
  BertPredictionTransform(const Scope& scope, const BertOptions& options);

  // x: [rows, hidden], one type throughout.
  Tensor Forward(const Tensor& x, Context& ctx);
  Tensor Backward(const Tensor& dy, Context& ctx);

 private:
  Activation activation_;
  Linear dense_;
  LayerNorm norm_;
  Tensor x_, before_;  // dense's input, and its product, of the last forward while training
};

// Two numbers for each pair, float32 whatever the compute type: they decide everything.
class BertNextSentence {
 public:
  // Parameters: pooler.* in `encoder`, seq_relationship.* in `heads`.
  BertNextSentence(const Scope& encoder, const Scope& heads, const BertOptions& options);

  // Sums of the weighted losses; nothing of nll and tokens. `outputs`, unless null, receives
  // next_probabilities and next_losses. hidden: of inputs.read.
  LossSums Forward(const Tensor& hidden, const PretrainingInputs& inputs, LossAccount& account,
                   Context& ctx, PretrainingOutputs* outputs);
  // The gradient of hidden, whose sequences these are; zero but in first rows.
  Tensor Backward(const Sequences& sequences, Context& ctx);

 private:
  BertPooler pooler_;
  Parameter& weight_;
  Parameter& bias_;
  Tensor pooled_, d_logits_;  // of the last forward while training
};

class BertPretraining {
 public:
  explicit BertPretraining(const BertPretrainingOptions& options);
  BertPretraining(const BertPretraining&) = delete;
  BertPretraining& operator=(const BertPretraining&) = delete;

  // Places and initialises the parameters; before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const BertPretrainingOptions& options() const { return options_; }

  // Copies what a batch is made of, at once; Forward and Backward then copy nothing.
  PretrainingInputs Upload(const PretrainingBatch& batch, Context& ctx) const;

  // Sums: `nll` of the cross-entropy of masked tokens, `loss` of that and of the next sentences'
  // times next_weights; `tokens` counts masked tokens. While training, keeps what Backward needs;
  // gradients are those of loss. A trainer's scale and sums: nn/loss_sums.h.
  // `outputs`, unless null, receives the guesses.
  LossSums Forward(const PretrainingInputs& inputs, Context& ctx,
                   PretrainingOutputs* outputs = nullptr);
  LossSums Forward(const PretrainingBatch& batch, Context& ctx,
                   PretrainingOutputs* outputs = nullptr);
  // Accumulates all parameter gradients of the last Forward.
  void Backward(Context& ctx);

 private:
  BertPretrainingOptions options_;
  ParameterSet parameters_;
  BertEncoder encoder_;
  BertPredictionTransform transform_;
  Parameter& output_bias_;
  OutputLoss output_;
  std::unique_ptr<BertNextSentence> next_sentence_;  // null without
  // Of the last forward while training.
  Sequences sequences_;
  OutputRows read_;
  Tensor masked_rows_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_HEAD_H_
