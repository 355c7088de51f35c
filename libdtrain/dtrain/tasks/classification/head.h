// head.h - BERT with a head for classes, values or several labels.
// SPDX-License-Identifier: Apache-2.0
//
//   BertClassifier model({.loss = ClassificationLossKind::kSoftmax, .num_labels = 3});
//   model.Allocate(device, DType::kFloat32, /*seed=*/1);
//   const LossSums sums = model.Forward(batch, ctx);
//   model.Backward(ctx);
//
// Weights are named and shaped as in Hugging Face's BertForSequenceClassification: bert.*,
// classifier.weight, classifier.bias.
#ifndef DTRAIN_TASKS_CLASSIFICATION_HEAD_H_
#define DTRAIN_TASKS_CLASSIFICATION_HEAD_H_

#include <cstdint>
#include <vector>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/ops/classification_loss.h"
#include "dtrain/tasks/classification/batch.h"

namespace dtrain {

struct BertClassifierOptions {
  BertOptions bert;
  // kSoftmax: one of num_labels classes; kMeanSquared: num_labels values, usually 1; kSigmoid:
  // num_labels labels that are there or not, each on its own.
  ClassificationLossKind loss = ClassificationLossKind::kSoftmax;
  int64_t num_labels = 2;
  float classifier_dropout = 0.1f;        // of the pooler's output
  std::vector<float> label_weights = {};  // [num_labels] or none: of each class's or label's loss

  // Numbers a row of a batch has for its labels.
  int64_t labels_per_row() const {
    return loss == ClassificationLossKind::kSoftmax ? 1 : num_labels;
  }
};

// A ClassificationBatch in the memory of the model's device.
struct ClassifierInputs {
  BertInputs text;
  OutputRows first;      // tokens of the texts, all that the head reads
  Tensor targets;        // [n, labels_per_row], float32
  Tensor weights;        // [n], float32
  Tensor label_weights;  // [num_labels], float32, or absent
};

// What the model says of a batch's rows.
struct ClassificationOutputs {
  std::vector<float> logits;         // [n, num_labels]
  std::vector<float> probabilities;  // [n, num_labels]; of kMeanSquared the values themselves
  std::vector<float> losses;         // [n]: without any weights; 0 for a row without label
};

class BertClassifier {
 public:
  explicit BertClassifier(const BertClassifierOptions& options);
  BertClassifier(const BertClassifier&) = delete;
  BertClassifier& operator=(const BertClassifier&) = delete;

  // Places and initialises the parameters; before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const BertClassifierOptions& options() const { return options_; }

  // Copies what a batch is made of, at once; Forward and Backward then copy nothing.
  ClassifierInputs Upload(const ClassificationBatch& batch, Context& ctx) const;

  // Sums over the batch's rows: `loss` with row and label weights, `nll` without, `tokens` counts
  // rows. While training, keeps what Backward needs; gradients are those of the sum.
  // A trainer's scale and sums: nn/loss_sums.h. `outputs`, unless null, receives the predictions.
  LossSums Forward(const ClassifierInputs& inputs, Context& ctx,
                   ClassificationOutputs* outputs = nullptr);
  LossSums Forward(const ClassificationBatch& batch, Context& ctx,
                   ClassificationOutputs* outputs = nullptr);
  // Accumulates all parameter gradients of the last Forward.
  void Backward(Context& ctx);

  // The encoder's output, [tokens, hidden].
  Tensor Encode(const ClassificationBatch& batch, Context& ctx);

 private:
  void FinishGradients();
  // `first`: the rows that are pooled.
  Dropout PooledDropout(const OutputRows& first, const Context& ctx) const {
    return ctx.MakeDropout(options_.classifier_dropout, dropout_site_,
                           first.sequences.row_numbers());
  }

  BertClassifierOptions options_;
  ParameterSet parameters_;
  BertEncoder encoder_;
  BertPooler pooler_;
  uint32_t dropout_site_;
  Parameter& weight_;
  Parameter& bias_;
  // Of the last forward while training.
  Sequences sequences_;
  OutputRows first_;
  Tensor pooled_, d_logits_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_CLASSIFICATION_HEAD_H_
