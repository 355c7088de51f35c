// head.h - BERT that points at an answer: where in a text it starts and ends.
// SPDX-License-Identifier: Apache-2.0
//
//   BertQuestionAnswering model(BertOptions{});
//   model.Allocate(device, DType::kFloat32, /*seed=*/1);
//   const LossSums sums = model.Forward(batch, ctx);
//   model.Backward(ctx);
//
// Weights are named and shaped as in Hugging Face's BertForQuestionAnswering: bert.* without the
// pooler, qa_outputs.weight [2, hidden], qa_outputs.bias [2].
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_HEAD_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_HEAD_H_

#include <cstdint>
#include <vector>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/tasks/question_answering/batch.h"

namespace dtrain {

// A SpanBatch in the memory of the model's device.
struct SpanInputs {
  BertInputs text;
  Tensor targets;  // [2, n], int32
};

// What the model says of a batch; the scores of a row lie where its tokens do.
struct SpanScores {
  std::vector<float> start, end;  // [tokens]
  std::vector<float> losses;      // [n]: the mean of start's and end's; 0 of unknown answers
};

class BertQuestionAnswering {
 public:
  explicit BertQuestionAnswering(const BertOptions& options);
  BertQuestionAnswering(const BertQuestionAnswering&) = delete;
  BertQuestionAnswering& operator=(const BertQuestionAnswering&) = delete;

  // Places and initialises the parameters; before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const BertOptions& options() const { return options_; }

  // Copies what a batch is made of, at once; Forward and Backward then copy nothing.
  SpanInputs Upload(const SpanBatch& batch, Context& ctx) const;

  // Sums over the rows of the mean cross-entropy of start and end (ops/span_loss.h); `tokens`
  // counts rows. While training, keeps what Backward needs; gradients are those of the sum.
  // A trainer's scale and sums: nn/loss_sums.h. `scores`, unless null, receives the scores.
  LossSums Forward(const SpanInputs& inputs, Context& ctx, SpanScores* scores = nullptr);
  LossSums Forward(const SpanBatch& batch, Context& ctx, SpanScores* scores = nullptr);
  // Accumulates all parameter gradients of the last Forward.
  void Backward(Context& ctx);

 private:
  SpanScores ScoresOf(const Tensor& logits, const Tensor& losses, Context& ctx) const;

  BertOptions options_;
  ParameterSet parameters_;
  BertEncoder encoder_;
  Parameter& weight_;
  // The same number for every token, so that no softmax over tokens sees it: it never learns, and
  // is here because files of weights have it.
  Parameter& bias_;
  // Of the last forward while training.
  Sequences sequences_;
  Tensor hidden_, d_logits_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_HEAD_H_
