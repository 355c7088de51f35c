// head.h - BERT that predicts masked tokens, and whether one text follows another.
// SPDX-License-Identifier: Apache-2.0
//
//   BertPretraining model({.bert = {}, .next_sentence = true});
//   model.Allocate(device, DType::kFloat32, /*seed=*/1);
//   const LossSums sums = model.Forward(batch, ctx);
//   model.Backward(ctx);
//
// Devlin et al., "BERT" (2019), section 3.1. Weights have the names and shapes of Hugging Face's
// BertForPreTraining or, without next_sentence, BertForMaskedLM: bert.*,
// cls.predictions.transform.*, cls.predictions.bias, cls.seq_relationship.*. The projection to the
// vocabulary shares bert.embeddings.word_embeddings.weight:
//   tokens:        LayerNorm(activation(dense(hidden))) words^T + bias
//   next sentence: seq_relationship(pooler(hidden)), 0 is next, 1 is random
// The last layer computes only masked tokens and each text's first token. Only masked tokens are
// transformed and projected.
#ifndef DTRAIN_TASKS_PRETRAINING_HEAD_H_
#define DTRAIN_TASKS_PRETRAINING_HEAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/models/head_transform.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/nn/output_loss.h"
#include "dtrain/tasks/pretraining/batch.h"

namespace dtrain {

struct BertPretrainingOptions {
  BertOptions bert;
  bool next_sentence = true;  // false: batches have no next_labels, and the model has no pooler
};

// A PretrainingBatch in device memory.
struct PretrainingInputs {
  BertInputs text = {};
  OutputRows read = {};                      // the rows that the heads read: first and masked
                                             // tokens
  Tensor masked_rows = {}, masked_ids = {};  // [masked], int32: positions among those rows, and ids
  // [n, 1] and [n], float32; absent without next_sentence.
  Tensor next_labels = {}, next_weights = {};
};

// The model's results for a batch.
struct PretrainingOutputs {
  std::vector<int32_t> predictions;  // [masked]: the most probable id for each masked token
  // next_probabilities: [n, 2], the probabilities of "is next" and "is random". next_losses: [n],
  // without weights. Both are empty without next_sentence.
  std::vector<float> next_probabilities;
  std::vector<float> next_losses;
};

// The head that predicts whether a text follows another. Its two logits per pair are always
// float32, because everything depends on them.
class BertNextSentence {
 public:
  // Parameters: pooler.* in the scope `encoder`, seq_relationship.* in the scope `heads`.
  BertNextSentence(const Scope& encoder, const Scope& heads, const BertOptions& options);

  // Returns the sum of the weighted losses; nll and tokens are 0. `outputs`, unless null, receives
  // next_probabilities and next_losses. hidden: the rows inputs.read.
  LossSums Forward(const Tensor& hidden, const PretrainingInputs& inputs, LossAccount& account,
                   Context& ctx, PretrainingOutputs* outputs);
  // Returns the gradient of hidden, which has these sequences. Only the first rows are not zero.
  Tensor Backward(const Sequences& sequences, Context& ctx);

 private:
  HeadTransform pooler_;
  Parameter& weight_;
  Parameter& bias_;
  Tensor pooled_, d_logits_;  // from the last forward while training
};

class BertPretraining {
 public:
  explicit BertPretraining(const BertPretrainingOptions& options);
  BertPretraining(const BertPretraining&) = delete;
  BertPretraining& operator=(const BertPretraining&) = delete;

  // Allocates and initialises the parameters. Call it before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const BertPretrainingOptions& options() const { return options_; }

  // Copies a batch to the device, with one copy. Forward and Backward then copy nothing.
  PretrainingInputs Upload(const PretrainingBatch& batch, Context& ctx) const;

  // Returns sums: `nll` is the cross-entropy of masked tokens; `loss` is nll plus the next-sentence
  // losses times next_weights; `tokens` is the number of masked tokens. While training, keeps the
  // tensors Backward needs; gradients are those of `loss`. For a trainer's scale and sums see
  // nn/loss_sums.h. `outputs`, unless null, receives the predictions.
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
  HeadTransform transform_;
  Parameter& output_bias_;
  OutputLoss output_;
  std::unique_ptr<BertNextSentence> next_sentence_;  // null without next_sentence
  // From the last forward while training.
  Sequences sequences_;
  OutputRows read_;
  Tensor masked_rows_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_PRETRAINING_HEAD_H_
