// head_costs_test.cc - a classifier's counted costs against real models and hand-made sums.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/head_costs.h"

#include <vector>

#include "testing/activation_peak.h"
#include "testing/catch.h"
#include "testing/classification_batches.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

// Elsewhere the work is emulated, and sizes are small.
bool OnCpu() { return testing::TestDevice().type == DeviceType::kCpu; }

BertClassifierOptions SmallOptions() {
  return {.bert = {.vocab_size = 97,
                   .hidden_size = 32,
                   .num_layers = OnCpu() ? 5 : 3,
                   .num_heads = 4,
                   .ffn_size = 80,
                   .max_positions = 64},
          .num_labels = 3,
          .label_weights = {1.0f, 2.0f, 3.0f}};
}

// The same as a relative of BERT, whose sums differ: narrow embeddings, no types, other positions,
// pre-norm layers of two kinds without biases.
std::vector<BertClassifierOptions> Relatives() {
  std::vector<BertClassifierOptions> relatives(5, SmallOptions());
  relatives[0].bert.family = &ElectraFamily();
  relatives[0].bert.embedding_size = 24;
  relatives[1].bert.family = &DistilBertFamily();
  relatives[1].bert.type_vocab_size = 0;
  relatives[2].bert.family = &RobertaFamily();
  relatives[2].bert.position_offset = 2;
  relatives[3].bert.family = &ModernBertFamily();
  relatives[3].bert.type_vocab_size = 0;
  relatives[3].bert.local_attention = 8;
  relatives[4] = relatives[3];
  relatives[4].mean_pooling = true;
  return relatives;
}

// Bytes that a real forward and backward take, or an evaluation.
int64_t MeasuredPeak(const BertClassifierOptions& options, const ActivationOptions& activations,
                     const ClassificationBatch& batch) {
  BertClassifier model(options);
  return testing::MeasuredPeak<ClassificationOutputs>(model, activations, batch);
}

std::vector<ActivationOptions> Policies() {
  std::vector<ActivationOptions> policies;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kCheap, Recompute::kFull}) {
    policies.push_back({.recompute = recompute});
  }
  for (const int every : OnCpu() ? std::vector<int>{1, 2, 3, 9} : std::vector<int>{2}) {
    policies.push_back({.recompute = Recompute::kEveryK, .recompute_every = every});
  }
  policies.push_back({.training = false});
  return policies;
}

TEST_CASE(
    "counted activations are those of the arena, whatever is recomputed, and of an evaluation") {
  for (const float dropout : {0.0f, 0.1f}) {
    BertClassifierOptions options = SmallOptions();
    options.bert.dropout = dropout;
    const ClassificationBatch batch =
        testing::RandomRows(options, 0, OnCpu() ? 9 : 3, OnCpu() ? 30 : 5, 1);
    const BertBatch counted{.tokens = batch.sequences.tokens(), .texts = batch.size()};
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (ActivationOptions activations : Policies()) {
        activations.compute_type = dtype;
        activations.device = testing::TestDevice().type;
        INFO("dropout " << dropout << ", " << Name(dtype) << ", recompute "
                        << static_cast<int>(activations.recompute) << " every "
                        << activations.recompute_every << ", training " << activations.training);
        CHECK(PeakActivationBytes(options, counted, activations) ==
              MeasuredPeak(options, activations, batch));
      }
    }
  }
}

TEST_CASE("counted activations and parameters of BERT's relatives are theirs") {
  for (const BertClassifierOptions& options : Relatives()) {
    INFO(options.bert.family->title << ", mean pooling " << options.mean_pooling);
    const ClassificationBatch batch = testing::RandomRows(options, 0, 3, 9, 1);
    const BertBatch counted{.tokens = batch.sequences.tokens(), .texts = batch.size()};
    BertClassifier model(options);
    CHECK(CountParameters(options).total() == model.parameters().num_elements());
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (ActivationOptions activations : Policies()) {
        activations.compute_type = dtype;
        activations.device = testing::TestDevice().type;
        INFO(Name(dtype) << ", recompute " << static_cast<int>(activations.recompute)
                         << ", training " << activations.training);
        CHECK(PeakActivationBytes(options, counted, activations) ==
              MeasuredPeak(options, activations, batch));
      }
    }
  }
}

TEST_CASE("a classifier's parameters are counted to the last one") {
  const BertClassifierOptions options = SmallOptions();
  BertClassifier model(options);
  CHECK(CountParameters(options).total() == model.parameters().num_elements());
  // BERT base with two classes: 109,482,240 of the encoder and the pooler, 2 * 769 of the head.
  CHECK(CountParameters(BertClassifierOptions()).total() == 109483778);
}

TEST_CASE("a classifier's FLOPs are those of its products, counted by hand") {
  const BertClassifierOptions options{
      .bert = {.hidden_size = 4, .num_layers = 3, .num_heads = 2, .ffn_size = 6}, .num_labels = 5};
  const BertBatch batch{.tokens = 6, .texts = 2};
  // Multiply-adds: 4 projections, scores and sums over 2 * 3 * 3 pairs, 2 products; in the last
  // layer, of the two first tokens alone, but for keys and values; then the head.
  const double layer = 6 * 4 * 16 + 18 * 2 * 4 + 6 * 2 * 24;
  const double last = 2 * 2 * 16 + 6 * 2 * 16 + 6 * 2 * 4 + 2 * 2 * 24;
  const double output = 2 * (16 + 20);
  const ModelFlops none = CountFlops(options, batch, Recompute::kNone);
  CHECK(none.forward == 2.0 * (2 * layer + last + output));
  CHECK(none.backward == 2.0 * none.forward);
  CHECK(none.recomputed == 0.0);
  CHECK(CountFlops(options, batch, Recompute::kFull).recomputed == 2.0 * (2 * layer + last));
  CHECK(CountFlops(options, batch, Recompute::kEveryK, 2).recomputed == 2.0 * 2 * layer);
}

}  // namespace
}  // namespace dtrain
