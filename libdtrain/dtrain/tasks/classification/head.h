// head.h - an encoder with a head that predicts classes, values or several labels.
// SPDX-License-Identifier: Apache-2.0
//
//   BertClassifier model({.loss = ClassificationLossKind::kSoftmax, .num_labels = 3});
//   model.Allocate(device, DType::kFloat32, /*seed=*/1);
//   const LossSums sums = model.Forward(batch, ctx);
//   model.Backward(ctx);
//
// Weights have the names and shapes of Hugging Face's class of the encoder's family, such as
// BertForSequenceClassification: bert.*, classifier.weight, classifier.bias.
#ifndef DTRAIN_TASKS_CLASSIFICATION_HEAD_H_
#define DTRAIN_TASKS_CLASSIFICATION_HEAD_H_

#include <cstdint>
#include <vector>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/models/head_transform.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/ops/classification_loss.h"
#include "dtrain/ops/dropout.h"
#include "dtrain/tasks/classification/batch.h"

namespace dtrain {

struct BertClassifierOptions {
  BertOptions bert;
  // kSoftmax: one of num_labels classes. kMeanSquared: num_labels values, usually 1. kSigmoid:
  // num_labels independent labels, each present or not.
  ClassificationLossKind loss = ClassificationLossKind::kSoftmax;
  int64_t num_labels = 2;
  // False: a text is represented by its first token's row; true: by the mean of all its rows.
  bool mean_pooling = false;
  float classifier_dropout = 0.1f;        // on the pooler's output, and in some families its input
  std::vector<float> label_weights = {};  // weight of each class's or label's loss: [num_labels],
                                          // or empty for 1

  // Number of label values in each row of a batch.
  int64_t labels_per_row() const {
    return loss == ClassificationLossKind::kSoftmax ? 1 : num_labels;
  }
};

// A ClassificationBatch in device memory.
struct ClassifierInputs {
  BertInputs text;
  OutputRows first;      // the first token of each text, the only rows the head reads unless it
                         // takes means
  Tensor targets;        // [n, labels_per_row], float32
  Tensor weights;        // [n], float32
  Tensor label_weights;  // [num_labels], float32, or absent
};

// The model's results for a batch.
struct ClassificationOutputs {
  std::vector<float> logits;         // [n, num_labels]
  std::vector<float> probabilities;  // [n, num_labels]; for kMeanSquared the predicted values
  std::vector<float> losses;         // [n], without any weights; 0 for a row without a label
};

class BertClassifier {
 public:
  explicit BertClassifier(const BertClassifierOptions& options);
  BertClassifier(const BertClassifier&) = delete;
  BertClassifier& operator=(const BertClassifier&) = delete;

  // Allocates and initialises the parameters. Call it before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const BertClassifierOptions& options() const { return options_; }

  // Copies a batch to the device, with one copy. Forward and Backward then copy nothing.
  ClassifierInputs Upload(const ClassificationBatch& batch, Context& ctx) const;

  // Returns sums over the batch's rows: `loss` with row and label weights, `nll` without, and
  // `tokens`, the number of rows. While training, keeps the tensors Backward needs; gradients are
  // those of the summed loss. For a trainer's scale and sums see nn/loss_sums.h. `outputs`, unless
  // null, receives the predictions.
  LossSums Forward(const ClassifierInputs& inputs, Context& ctx,
                   ClassificationOutputs* outputs = nullptr);
  LossSums Forward(const ClassificationBatch& batch, Context& ctx,
                   ClassificationOutputs* outputs = nullptr);
  // Accumulates all parameter gradients of the last Forward.
  void Backward(Context& ctx);

  // Returns the encoder's output, [tokens, hidden].
  Tensor Encode(const ClassificationBatch& batch, Context& ctx);

 private:
  void FinishGradients();
  // Returns [n, hidden], the rows that represent texts; and the reverse.
  Tensor EncodeTexts(const ClassifierInputs& inputs, Context& ctx);
  void BackwardTexts(Tensor d_texts, Context& ctx);
  // `first`: the rows that are pooled.
  Dropout DropoutAt(uint32_t site, const OutputRows& first, const Context& ctx) const {
    return ctx.MakeDropout(options_.classifier_dropout, site, first.sequences.row_numbers());
  }
  Dropout PooledDropout(const OutputRows& first, const Context& ctx) const {
    return DropoutAt(dropout_site_, first, ctx);
  }

  BertClassifierOptions options_;
  ParameterSet parameters_;
  BertEncoder encoder_;
  HeadTransform pooler_;
  uint32_t dropout_site_;
  uint32_t input_site_;  // where the family drops the pooler's input
  Parameter& weight_;
  Parameter& bias_;
  // From the last forward while training.
  Sequences sequences_;
  OutputRows first_;
  Tensor pooled_, d_logits_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_HEAD_H_
