// low_rank_test.cc - a classifier with adapters against one whose weights are their sums.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "dtrain/models/encoder_family.h"
#include "dtrain/nn/frozen_parameters.h"
#include "dtrain/tasks/classification/head.h"
#include "testing/catch.h"
#include "testing/classification_batches.h"
#include "testing/op_cases.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

using namespace testing;

BertClassifierOptions OptionsOf(const EncoderFamily& family) {
  BertClassifierOptions options = {.bert = {.family = &family,
                                            .vocab_size = 61,
                                            .hidden_size = 32,
                                            .num_layers = 3,
                                            .num_heads = 4,
                                            .ffn_size = 48,
                                            .max_positions = 32,
                                            .dropout = 0.0f,
                                            .attention_dropout = 0.0f},
                                   .num_labels = 3,
                                   .classifier_dropout = 0.0f};
  options.bert.local_attention = 8;
  if (&family != &BertFamily()) options.bert.type_vocab_size = 0;
  return options;
}

LossSums Backpropagate(BertClassifier& model, const ClassificationBatch& batch,
                       Recompute recompute) {
  Context ctx(TestDevice(), {.recompute = recompute});
  ctx.set_training(true);
  ctx.set_step(5);
  model.parameters().BeginGradients(ctx.stream());
  const LossSums sums = model.Forward(batch, ctx);
  model.Backward(ctx);
  model.parameters().SettleGradients();
  ctx.stream().Synchronize();
  CHECK(ctx.activations().used() == 0);
  return sums;
}

// d(loss)/dA = scale B^T dW and d(loss)/dB = scale dW A^T, for W: [out, in].
void CheckGradients(const LowRankAdapter& adapter, const Values& d_weight) {
  const auto rank = static_cast<size_t>(adapter.a->shape()[0]);
  const auto in = static_cast<size_t>(adapter.a->shape()[1]);
  const auto out = static_cast<size_t>(adapter.b->shape()[0]);
  const Values a = ValuesOf(adapter.a->master());
  const Values b = ValuesOf(adapter.b->master());
  const auto scale = static_cast<double>(adapter.scale);
  Values d_a(a.size(), 0.0);
  Values d_b(b.size(), 0.0);
  for (size_t o = 0; o < out; ++o) {
    for (size_t i = 0; i < in; ++i) {
      for (size_t r = 0; r < rank; ++r) {
        d_a[r * in + i] += scale * b[o * rank + r] * d_weight[o * in + i];
        d_b[o * rank + r] += scale * a[r * in + i] * d_weight[o * in + i];
      }
    }
  }
  INFO(adapter.weight->name());
  CHECK(Difference(ValuesOf(adapter.a->gradient()), d_a) <= 2e-5);
  CHECK(Difference(ValuesOf(adapter.b->gradient()), d_b) <= 2e-5);
}

void CheckModel(BertClassifierOptions options, const std::string& target, size_t adapters,
                Recompute recompute) {
  INFO(options.bert.family->name << ", " << target);
  const ClassificationBatch batch = RandomRows(options, 0, 6, 20, 1);
  BertClassifier plain(options);
  plain.Allocate(TestDevice(), DType::kFloat32, /*seed=*/3);
  options.bert.low_rank = {.rank = 2, .alpha = 3.0f, .targets = {target}};
  BertClassifier adapted(options);
  adapted.Allocate(TestDevice(), DType::kFloat32, /*seed=*/3);
  ParameterSet& parameters = adapted.parameters();
  REQUIRE(FrozenOf(parameters).adapters().size() == adapters);
  uint32_t site = 40;
  for (const LowRankAdapter& adapter : FrozenOf(parameters).adapters()) {
    const Values b = ValuesOf(Random(adapter.b->shape(), DType::kFloat32, ++site, -0.1, 0.1));
    ForElements(adapter.b->master(), [&](int64_t at, int64_t i) {
      WriteElement(adapter.b->master(), at, b[static_cast<size_t>(i)]);
    });
  }
  parameters.RefreshComputeWeights();
  for (const Parameter* parameter : parameters.all()) {
    Parameter* const twin = plain.parameters().Find(parameter->name());
    if (twin == nullptr) continue;  // A or B
    const Values values = ValuesOf(parameter->value());
    ForElements(twin->master(), [&](int64_t at, int64_t i) {
      WriteElement(twin->master(), at, values[static_cast<size_t>(i)]);
    });
  }
  const LossSums wanted = Backpropagate(plain, batch, recompute);
  const LossSums got = Backpropagate(adapted, batch, recompute);
  CHECK(got.loss == Approx(wanted.loss).epsilon(1e-6));
  for (const LowRankAdapter& adapter : FrozenOf(parameters).adapters()) {
    CheckGradients(adapter, ValuesOf(plain.parameters().Find(adapter.weight->name())->gradient()));
  }
  for (Parameter* parameter : parameters.in_backward_order()) {
    if (FrozenOf(parameters).IsFactor(*parameter)) continue;
    INFO(parameter->name());
    CHECK(parameter->name().find("layer") ==
          std::string::npos);  // of the head, the pooler included
    CHECK(Difference(ValuesOf(parameter->gradient()),
                     ValuesOf(plain.parameters().Find(parameter->name())->gradient())) <= 2e-5);
  }
}

TEST_CASE("adapters and the head have the gradients that follow from those of the whole model") {
  const auto recompute = GENERATE(Recompute::kNone, Recompute::kCheap, Recompute::kFull);
  CheckModel(OptionsOf(BertFamily()), "query", 3, recompute);
  CheckModel(OptionsOf(BertFamily()), "all-linear", 18, recompute);
  CheckModel(OptionsOf(*FindEncoderFamily("distilbert")), "q_lin", 3, recompute);
  CheckModel(OptionsOf(*FindEncoderFamily("modernbert")), "Wqkv", 3, recompute);
  CheckModel(OptionsOf(*FindEncoderFamily("modernbert")), "all-linear", 12, recompute);
}

TEST_CASE("a rank whose share of an update is empty reports the gradients of adapters too") {
  BertClassifierOptions options = OptionsOf(BertFamily());
  options.bert.low_rank = {.rank = 2, .targets = {"value"}};
  BertClassifier model(options);
  model.Allocate(TestDevice(), DType::kFloat32, /*seed=*/3);
  std::vector<std::string> ready;
  model.parameters().SetReadyListener(
      [&](const Parameter& parameter) { ready.push_back(parameter.name()); });
  const auto run = [&](int64_t rows) {
    ready.clear();
    Backpropagate(model, RandomRows(options, 0, rows, rows > 0 ? 9 : 0, 1), Recompute::kNone);
    std::sort(ready.begin(), ready.end());
    return ready;
  };
  const std::vector<std::string> of_rows = run(2);
  CHECK(of_rows.size() == model.parameters().in_backward_order().size());
  CHECK(run(0) == of_rows);
}

}  // namespace
}  // namespace dtrain
