// head_test.cc - a BERT classifier's own invariants; its values are PyTorch's elsewhere.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/head.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "dtrain/device/arena.h"
#include "testing/catch.h"
#include "testing/classification_batches.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

using testing::RandomRows;

// Elsewhere the work may be emulated, and sizes are small.
bool OnCpu() { return testing::TestDevice().type == DeviceType::kCpu; }

BertClassifierOptions SmallOptions() {
  return {.bert = {.vocab_size = 61,
                   .hidden_size = 32,
                   .num_layers = OnCpu() ? 5 : 2,
                   .num_heads = 4,
                   .ffn_size = 48,
                   .max_positions = 32},
          .num_labels = 3};
}

BertClassifierOptions WithoutDropout() {
  BertClassifierOptions options = SmallOptions();
  options.bert.dropout = options.bert.attention_dropout = options.classifier_dropout = 0.0f;
  return options;
}

struct Pass {
  LossSums sums;
  std::vector<float> gradients;
  size_t peak = 0;
};

// Gradients of one batch from freshly initialised weights.
Pass RunOnce(const BertClassifierOptions& options, const ClassificationBatch& batch,
             const ContextOptions& context_options = {}) {
  BertClassifier model(options);
  model.Allocate(testing::TestDevice(), context_options.compute_type, /*seed=*/3);
  Context ctx(testing::TestDevice(), context_options);
  ctx.set_training(true);
  ctx.set_step(5);
  Pass pass;
  pass.sums = model.Forward(batch, ctx);
  model.Backward(ctx);
  CHECK(ctx.activations().used() == 0);
  pass.peak = ctx.activations().peak();
  pass.gradients = testing::ElementsOf<float>(model.parameters().gradients());
  return pass;
}

double RelativeDistance(const std::vector<double>& a, const std::vector<float>& b) {
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(a[i] - double{b[i]}, 2);
    norm += a[i] * a[i];
  }
  return std::sqrt(difference / norm);
}

TEST_CASE("recomputation gives bit-identical gradients and needs less memory") {
  for (const DType dtype : testing::FloatTypes()) {
    if (!OnCpu() && dtype == DType::kFloat32) continue;
    BertClassifierOptions options = SmallOptions();
    if (!OnCpu()) options.bert.num_layers = 3;
    const ClassificationBatch batch = RandomRows(options, 0, OnCpu() ? 8 : 2, OnCpu() ? 30 : 5, 1);
    const auto run = [&](Recompute recompute, int every = 2) {
      return RunOnce(options, batch,
                     {.compute_type = dtype, .recompute = recompute, .recompute_every = every});
    };
    INFO(Name(dtype));
    const Pass none = run(Recompute::kNone);
    const Pass cheap = run(Recompute::kCheap);
    const Pass full = run(Recompute::kFull);
    const Pass segments = run(Recompute::kEveryK);
    CHECK(none.sums.loss == cheap.sums.loss);
    CHECK(none.gradients == cheap.gradients);
    CHECK(none.gradients == full.gradients);
    CHECK(none.gradients == segments.gradients);
    CHECK(cheap.peak < none.peak);
    CHECK(full.peak < cheap.peak);
    CHECK(segments.peak < none.peak);
  }
}

TEST_CASE("the gradient of a packed batch is the sum of its rows' gradients") {
  for (const auto kind : {ClassificationLossKind::kSoftmax, ClassificationLossKind::kMeanSquared,
                          ClassificationLossKind::kSigmoid}) {
    BertClassifierOptions options = WithoutDropout();
    options.loss = kind;
    options.label_weights = {0.5f, 2.0f, 1.0f};
    const Pass all = RunOnce(options, RandomRows(options, 0, 5, OnCpu() ? 12 : 4, 2));
    std::vector<double> sum(all.gradients.size());
    double loss = 0.0;
    for (int64_t i = 0; i < 5; ++i) {
      const Pass one = RunOnce(options, RandomRows(options, i, i + 1, OnCpu() ? 12 : 4, 2));
      loss += one.sums.loss;
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += double{one.gradients[j]};
    }
    INFO("loss kind " << static_cast<int>(kind));
    CHECK(all.sums.loss == Approx(loss).epsilon(1e-5));
    CHECK(RelativeDistance(sum, all.gradients) < 2e-6);
  }
}

TEST_CASE("every parameter reports its gradient once, in the order of the arena") {
  BertClassifier model(SmallOptions());
  model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
  Context ctx(testing::TestDevice());
  ctx.set_training(true);
  std::vector<int> ready;
  model.parameters().SetReadyListener(
      [&](const Parameter& parameter) { ready.push_back(parameter.index()); });
  for (const int64_t rows : {2, 0}) {
    INFO(rows << " rows");
    ready.clear();
    model.Forward(RandomRows(model.options(), 0, rows, 5, 4), ctx);
    model.Backward(ctx);
    std::vector<int> expected(model.parameters().in_backward_order().size());
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(ready == expected);
  }
}

TEST_CASE("rows without a label cost nothing and are predicted like others") {
  for (const auto kind : {ClassificationLossKind::kSoftmax, ClassificationLossKind::kMeanSquared,
                          ClassificationLossKind::kSigmoid}) {
    BertClassifierOptions options = WithoutDropout();
    options.loss = kind;
    BertClassifier model(options);
    model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
    Context ctx(testing::TestDevice());
    ClassificationBatch batch = RandomRows(options, 0, 3, 9, 5);
    ClassificationOutputs labelled;
    model.Forward(batch, ctx, &labelled);
    batch.labels.assign(batch.labels.size(), std::numeric_limits<float>::quiet_NaN());
    ClassificationOutputs outputs;
    const LossSums sums = model.Forward(batch, ctx, &outputs);
    CHECK(sums.loss == 0.0);
    CHECK(sums.tokens == 3);
    CHECK(outputs.logits == labelled.logits);
    CHECK(outputs.losses == std::vector<float>(3, 0.0f));
    const Pass pass = RunOnce(options, batch);
    CHECK(pass.gradients == std::vector<float>(pass.gradients.size(), 0.0f));
  }
}

TEST_CASE("a row is predicted alike whatever its batch") {
  const BertClassifierOptions options = SmallOptions();
  BertClassifier model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
  Context ctx(testing::TestDevice());
  ClassificationOutputs all;
  model.Forward(RandomRows(options, 0, 6, 15, 6), ctx, &all);
  for (int64_t i = 0; i < 6; ++i) {
    ClassificationOutputs one;
    model.Forward(RandomRows(options, i, i + 1, 15, 6), ctx, &one);
    for (size_t c = 0; c < 3; ++c) {
      CHECK(one.logits[c] == Approx(all.logits[3 * static_cast<size_t>(i) + c]).margin(1e-6));
    }
  }
}

TEST_CASE("matrices start as Hugging Face starts them") {
  BertClassifier model(SmallOptions());
  model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
  const auto values = [&](const std::string& name) {
    return testing::ElementsOf<float>(model.parameters().Find(name)->master());
  };
  for (const char* name :
       {"bert.embeddings.word_embeddings.weight", "bert.encoder.layer.1.intermediate.dense.weight",
        "bert.encoder.layer.0.attention.self.key.weight", "bert.pooler.dense.weight"}) {
    double squares = 0.0;
    for (const float value : values(name)) squares += double{value} * double{value};
    INFO(name);
    CHECK(std::sqrt(squares / static_cast<double>(values(name).size())) ==
          Approx(0.02).epsilon(0.1));
  }
  CHECK(values("classifier.bias") == std::vector<float>(3, 0.0f));
  CHECK(values("bert.encoder.layer.0.output.LayerNorm.weight") == std::vector<float>(32, 1.0f));
}

TEST_CASE("a BERT classifier refuses broken batches and options") {
  BertClassifierOptions options = SmallOptions();
  BertClassifier model(options);
  model.Allocate(testing::TestDevice(), DType::kFloat32, 1);
  Context ctx(testing::TestDevice());
  const auto message = [&](const ClassificationBatch& batch) -> std::string {
    try {
      model.Forward(batch, ctx);
    } catch (const CheckError& error) {
      return error.what();
    }
    return "";
  };
  BertClassifierOptions longer = options;
  longer.bert.max_positions = 64;
  CHECK_THAT(message(RandomRows(longer, 0, 30, 60, 7)), Catch::Contains("table of positions"));
  ClassificationBatch batch = RandomRows(options, 0, 2, 9, 7);
  batch.type_ids.pop_back();
  CHECK(message(batch) != "");
  options.label_weights = {1.0f};
  CHECK_THROWS_WITH(BertClassifier(options), Catch::Contains("1 label_weights for 3 labels"));
}

}  // namespace
}  // namespace dtrain
