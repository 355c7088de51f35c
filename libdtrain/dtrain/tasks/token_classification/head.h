// head.h - BERT that gives every word a tag.
// SPDX-License-Identifier: Apache-2.0
//
//   BertTokenClassifier model({.num_tags = 9});
//   model.Allocate(device, DType::kFloat32, /*seed=*/1);
//   const LossSums sums = model.Forward(batch, ctx);
//   model.Backward(ctx);
//
// Weights are named and shaped as in Hugging Face's BertForTokenClassification: bert.* without the
// pooler, classifier.weight [tags, hidden], classifier.bias [tags].
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_HEAD_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_HEAD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "dtrain/models/bert_encoder.h"
#include "dtrain/models/head_transform.h"
#include "dtrain/nn/loss_sums.h"
#include "dtrain/ops/dropout.h"
#include "dtrain/tasks/token_classification/batch.h"

namespace dtrain {

struct BertTokenClassifierOptions {
  BertOptions bert;
  int64_t num_tags = 2;
  float classifier_dropout = 0.1f;  // of the encoder's output
};

// A TaggingBatch in the memory of the model's device.
struct TaggingInputs {
  BertInputs text;
  OutputRows words;  // the tokens that stand for words
  Tensor tags;       // [words, 1], float32
};

// The outputs of the model for a batch's words.
struct TaggingOutputs {
  std::vector<float> logits;  // [words, num_tags]
  std::vector<float> losses;  // [words]; 0 for a word without a tag
};

class BertTokenClassifier {
 public:
  explicit BertTokenClassifier(const BertTokenClassifierOptions& options);
  BertTokenClassifier(const BertTokenClassifier&) = delete;
  BertTokenClassifier& operator=(const BertTokenClassifier&) = delete;

  // Places and initialises the parameters; before anything else.
  void Allocate(const Device& device, DType compute_type, uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  const BertTokenClassifierOptions& options() const { return options_; }

  // Copies a batch to the device at once; Forward and Backward then copy nothing.
  TaggingInputs Upload(const TaggingBatch& batch, Context& ctx) const;

  // Sums the cross-entropy over the batch's words; `tokens` counts words. While training, keeps
  // what Backward needs; gradients are those of the sum. A trainer's scale and sums:
  // nn/loss_sums.h. `outputs`, unless null, receives the predictions.
  LossSums Forward(const TaggingInputs& inputs, Context& ctx, TaggingOutputs* outputs = nullptr);
  LossSums Forward(const TaggingBatch& batch, Context& ctx, TaggingOutputs* outputs = nullptr);
  // Accumulates all parameter gradients of the last Forward.
  void Backward(Context& ctx);

 private:
  Dropout WordDropout(const OutputRows& words, const Context& ctx) const {
    return ctx.MakeDropout(options_.classifier_dropout, dropout_site_,
                           words.sequences.row_numbers());
  }

  BertTokenClassifierOptions options_;
  ParameterSet parameters_;
  BertEncoder encoder_;
  std::optional<HeadTransform> transform_;  // in families whose tokens have one
  uint32_t dropout_site_;
  Parameter& weight_;
  Parameter& bias_;
  // Kept from the last Forward() in training, for Backward().
  Sequences sequences_;
  OutputRows words_;
  Tensor hidden_, d_logits_;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_HEAD_H_
