// head_costs.cc - sums over the encoder and the classifier on top of it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/head_costs.h"

#include <array>
#include <utility>

#include "dtrain/models/internal/encoder_blocks.h"

namespace dtrain {
namespace {

using internal::EncoderBlocks;
using Block = ByteMeter::Block;

// BertClassifier::Forward and Backward, block by block.
class ClassifierBlocks {
 public:
  ClassifierBlocks(const BertClassifierOptions& options, const BertBatch& batch,
                   const ActivationOptions& activations, ByteMeter& meter)
      : batch_(batch),
        hidden_size_(options.bert.hidden_size),
        outputs_(batch.texts * options.num_labels),
        dtype_(activations.compute_type),
        meter_(meter),
        mean_pooling_(options.mean_pooling),
        encoder_(options.bert, batch, activations, meter,
                 /*output_rows=*/options.mean_pooling ? 0 : batch.texts),
        transform_(ClassifierTransformOf(options.bert), batch.texts, activations, meter) {}

  void Forward() {
    Block first = encoder_.Forward();
    if (mean_pooling_) first = OfTexts();
    const Block pooled = transform_.Forward(first);
    std::array<Block, 3> outputs;  // logits, and of each text the loss with and without weights
    outputs[0] = Outputs(DType::kFloat32);
    outputs[1] = meter_.Take(batch_.texts, DType::kFloat32);
    outputs[2] = meter_.Take(batch_.texts, DType::kFloat32);
    d_logits_ = Outputs(DType::kFloat32);  // or probabilities
    const Block scale = meter_.Take(1, DType::kFloat32);
    const Block sum = meter_.Take(1, DType::kFloat64);
    pooled_ = pooled;
  }

  void Backward() {
    Block d_logits = std::exchange(d_logits_, nullptr);
    if (dtype_ != DType::kFloat32) d_logits = Outputs(dtype_);
    Block d_pooled = OfTexts();
    pooled_ = nullptr;
    Block d_first = transform_.Backward();
    d_pooled = nullptr;
    if (mean_pooling_) d_first = encoder_.OfTokens();
    encoder_.Backward(std::move(d_first));
  }

 private:
  Block OfTexts() { return meter_.Take(batch_.texts * hidden_size_, dtype_); }
  Block Outputs(DType dtype) { return meter_.Take(outputs_, dtype); }

  BertBatch batch_;
  int64_t hidden_size_;
  int64_t outputs_;
  DType dtype_;
  ByteMeter& meter_;
  bool mean_pooling_;
  EncoderBlocks encoder_;
  internal::HeadTransformBlocks transform_;
  Block pooled_, d_logits_;
};

}  // namespace

ModelParameters CountParameters(const BertClassifierOptions& options) {
  const int64_t hidden = options.bert.hidden_size;
  ModelParameters parameters = internal::CountEncoder(options.bert);
  parameters.output =
      CountParameters(ClassifierTransformOf(options.bert)) + options.num_labels * (hidden + 1);
  return parameters;
}

ModelFlops CountFlops(const BertClassifierOptions& options, const BertBatch& batch,
                      Recompute recompute, int recompute_every) {
  const auto hidden = static_cast<double>(options.bert.hidden_size);
  const double output = 2.0 * static_cast<double>(batch.texts) * hidden *
                        (hidden + static_cast<double>(options.num_labels));
  return internal::CountEncoderFlops(options.bert, batch,
                                     /*output_rows=*/options.mean_pooling ? 0 : batch.texts, output,
                                     recompute, recompute_every);
}

int64_t PeakActivationBytes(const BertClassifierOptions& options, const BertBatch& batch,
                            const ActivationOptions& activations) {
  if (batch.texts == 0) return 0;
  ByteMeter meter;
  ClassifierBlocks blocks(options, batch, activations, meter);
  // Offsets of texts of one token, targets, weights of texts, numbers of first rows, weights of
  // labels.
  const std::array<int64_t, 5> own = {batch.texts + 1, batch.texts * options.labels_per_row(),
                                      batch.texts, activations.training ? batch.texts : 0,
                                      static_cast<int64_t>(options.label_weights.size())};
  const Block inputs = internal::TakeInputs(batch, own, activations.training, meter);
  blocks.Forward();
  if (activations.training) blocks.Backward();
  return meter.peak();
}

ModelCosts CostsOf(const BertClassifierOptions& options, const BertBatch& batch) {
  return internal::CostsOfModel(options, batch);
}

BertHead ClassifierHead(const BertClassifierOptions& model) {
  const int64_t hidden = model.bert.hidden_size;
  BertHead head{.row = "text", .encoder = model.bert, .parameters = CountParameters(model)};
  AddLinear(model.num_labels, hidden, head.gradients);
  AddHeadTransform(ClassifierTransformOf(model.bert), head.gradients);
  head.costs = [model](const BertBatch& batch) { return CostsOf(model, batch); };
  return head;
}

}  // namespace dtrain
