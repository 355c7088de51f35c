// head.h - BERT that finds an answer in a text: its start and its end.
// SPDX-License-Identifier: Apache-2.0
//
//   BertQuestionAnswering model(BertOptions{});
//   model.Allocate(device, DType::kFloat32, /*seed=*/1);
//   const LossSums sums = model.Forward(batch, ctx);
//   model.Backward(ctx);
//
// Weights have the names and shapes of Hugging Face's BertForQuestionAnswering: bert.* without the
// pooler, qa_outputs.weight [2, hidden], qa_outputs.bias [2].
#ifndef DTRAIN_TASKS_QUESTION_ANSWERING_HEAD_H_
#define DTRAIN_TASKS_QUESTION_ANSWERING_HEAD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/models/head_transform.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/tasks/question_answering/batch.h"

namespace dtrain {

// A SpanBatch in device memory.
struct SpanInputs {
  BertInputs text;
  Tensor targets;  // [2, n], int32: starts and ends
};

// The model's results for a batch. Scores are in the order of the batch's tokens.
struct SpanScores {
  std::vector<float> start, end;  // [tokens]
  std::vector<float> losses;      // [n]: the mean loss of start and end; 0 if the answer is unknown
};

class BertQuestionAnswering {
 public:
  explicit BertQuestionAnswering(const BertOptions& options);
  BertQuestionAnswering(const BertQuestionAnswering&) = delete;
  BertQuestionAnswering& operator=(const BertQuestionAnswering&) = delete;

  // Allocates and initialises the parameters. Call it before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const BertOptions& options() const { return options_; }

  // Copies a batch to the device, with one copy. Forward and Backward then copy nothing.
  SpanInputs Upload(const SpanBatch& batch, Context& ctx) const;

  // Returns sums over the rows of the mean cross-entropy of start and end (ops/span_loss.h);
  // `tokens` is the number of rows. While training, keeps the tensors Backward needs; gradients are
  // those of the summed loss. For a trainer's scale and sums see nn/loss_sums.h. `scores`, unless
  // null, receives the scores.
  LossSums Forward(const SpanInputs& inputs, Context& ctx, SpanScores* scores = nullptr);
  LossSums Forward(const SpanBatch& batch, Context& ctx, SpanScores* scores = nullptr);
  // Accumulates all parameter gradients of the last Forward.
  void Backward(Context& ctx);

 private:
  SpanScores ScoresOf(const Tensor& logits, const Tensor& losses, Context& ctx) const;

  BertOptions options_;
  ParameterSet parameters_;
  BertEncoder encoder_;
  std::optional<HeadTransform> transform_;  // in families whose tokens have one
  Parameter& weight_;
  // The bias is the same for every token, so the softmax over tokens cancels it. Its gradient is 0
  // and it never changes. It exists because weight files contain it.
  Parameter& bias_;
  // From the last forward while training.
  Sequences sequences_;
  Tensor hidden_, d_logits_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_QUESTION_ANSWERING_HEAD_H_
