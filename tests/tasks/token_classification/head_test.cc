// head_test.cc - losses, gradients against finite differences, and memory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/head.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/device/arena.h"
#include "dtrain/nn/embedding.h"
#include "dtrain/ops/cast.h"
#include "dtrain/tasks/token_classification/head_costs.h"
#include "testing/catch.h"
#include "testing/golden.h"
#include "testing/numbered_batch.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

BertTokenClassifierOptions SmallOptions() {
  return {.bert = {.vocab_size = 31,
                   .hidden_size = 16,
                   .num_layers = 2,
                   .num_heads = 2,
                   .ffn_size = 24,
                   .max_positions = 16,
                   .dropout = 0.0f,
                   .attention_dropout = 0.0f,
                   .initializer_range = 0.3f},
          .num_tags = 5,
          .classifier_dropout = 0.0f};
}

// One whose words have a transform before their scores, too.
std::vector<BertTokenClassifierOptions> SmallModels() {
  BertTokenClassifierOptions modern = SmallOptions();
  modern.bert.family = &ModernBertFamily();
  modern.bert.type_vocab_size = 0;
  modern.bert.num_layers = 3;
  modern.bert.local_attention = 4;
  modern.bert.whole_every = 2;
  modern.bert.layer_norm_epsilon = 1e-5f;
  return {SmallOptions(), modern};
}

std::unique_ptr<BertTokenClassifier> Fresh(const BertTokenClassifierOptions& options,
                                           DType type = DType::kFloat32) {
  auto model = std::make_unique<BertTokenClassifier>(options);
  model->Allocate(testing::TestDevice(), type, /*seed=*/3);
  return model;
}

// Rows of these lengths in which every piece but the first and the last is a word.
TaggingBatch RandomBatch(const std::vector<int32_t>& lengths, int64_t num_tags) {
  RandomStream random({.seed = 5});
  TaggingBatch batch;
  std::vector<int32_t> offsets = {0};
  for (const int32_t length : lengths) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < length; ++i) {
      ids.push_back(static_cast<int32_t>(random.NextBelow(31)));
      if (i == 0 || i == length - 1) continue;
      batch.word_rows.push_back(offsets.back() + i);
      batch.tags.push_back(static_cast<float>(random.NextBelow(static_cast<uint32_t>(num_tags))));
    }
    batch.AppendTokens(ids, length);
    batch.word_offsets.push_back(static_cast<int32_t>(batch.word_rows.size()));
    offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
  }
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

TEST_CASE(
    "the loss of a word is the cross-entropy of its logits, and words without tags have none") {
  const auto model = Fresh(SmallOptions());
  TaggingBatch batch = RandomBatch({5, 8, 3}, 5);
  batch.tags[2] = std::numeric_limits<float>::quiet_NaN();
  Context ctx(testing::TestDevice());
  TaggingOutputs outputs;
  const LossSums sums = model->Forward(batch, ctx, &outputs);
  CHECK(sums.tokens == 10);
  REQUIRE(outputs.losses.size() == 10);
  REQUIRE(outputs.logits.size() == 50);
  double total = 0.0;
  for (size_t word = 0; word < 10; ++word) {
    const float* const logits = outputs.logits.data() + 5 * word;
    double sum = 0.0;
    for (int tag = 0; tag < 5; ++tag) sum += std::exp(double{logits[tag]});
    const double loss =
        word == 2 ? 0.0 : std::log(sum) - double{logits[static_cast<size_t>(batch.tags[word])]};
    CHECK(outputs.losses[word] == Approx(loss).epsilon(1e-5).margin(1e-6));
    total += loss;
  }
  CHECK(sums.loss == Approx(total).epsilon(1e-5));
}

TEST_CASE("gradients of all parameters match finite differences") {
  if (testing::TestDevice().type != DeviceType::kCpu) return;  // weights are changed in place
  const BertTokenClassifierOptions options = GENERATE(from_range(SmallModels()));
  INFO(options.bert.family->title);
  const auto model = Fresh(options);
  const TaggingBatch batch = RandomBatch({6, 4}, 5);
  Context ctx(testing::TestDevice());
  ctx.set_training(true);
  model->Forward(batch, ctx);
  model->Backward(ctx);
  CHECK(ctx.activations().used() == 0);
  const std::vector<float> gradients = testing::ElementsOf<float>(model->parameters().gradients());
  Context evaluation(testing::TestDevice());
  const auto loss = [&] { return model->Forward(batch, evaluation).loss; };
  Tensor weights = model->parameters().weights();
  float* const values = weights.data<float>();
  REQUIRE(static_cast<int64_t>(gradients.size()) == weights.elements());
  // Along the gradient of each parameter, so that rounding stays small beside the change.
  for (Parameter* parameter : model->parameters().in_backward_order()) {
    const std::vector<float> own = testing::ElementsOf<float>(parameter->gradient());
    double norm = 0.0;
    for (const float g : own) norm += double{g} * g;
    if (norm < 1e-6) continue;  // the bias of keys, whose gradient is rounding
    INFO(parameter->name());
    float* const at = parameter->master().data<float>();
    const std::vector<float> before(at, at + own.size());
    const double step = 1e-3 / std::sqrt(norm);
    const auto shifted = [&](double by) {
      for (size_t i = 0; i < own.size(); ++i) {
        at[i] = static_cast<float>(before[i] + by * double{own[i]});
      }
      return loss();
    };
    const double difference = (shifted(step) - shifted(-step)) / (2.0 * step);
    std::copy(before.begin(), before.end(), at);
    CHECK(difference == Approx(norm).epsilon(0.02));
  }
  CHECK(values != nullptr);
}

TEST_CASE("the outputs of a row do not depend on the others of its batch") {
  const auto model = Fresh(SmallOptions());
  const TaggingBatch all = RandomBatch({5, 8, 3}, 5);
  Context ctx(testing::TestDevice());
  TaggingOutputs expected;
  model->Forward(all, ctx, &expected);
  TaggingBatch first = RandomBatch({5}, 5);
  REQUIRE(first.tags == std::vector<float>(all.tags.begin(), all.tags.begin() + 3));
  TaggingOutputs outputs;
  model->Forward(first, ctx, &outputs);
  for (size_t i = 0; i < outputs.logits.size(); ++i) {
    CHECK(outputs.logits[i] == Approx(expected.logits[i]).epsilon(1e-4).margin(1e-5));
  }
}

TEST_CASE("a rank without sentences has gradients that are ready, and none of them changed") {
  const auto model = Fresh(SmallOptions());
  Context ctx(testing::TestDevice());
  ctx.set_training(true);
  CHECK(model->Forward(TaggingBatch(), ctx).tokens == 0);
  model->Backward(ctx);
  CHECK(testing::LargestMagnitude(model->parameters().gradients()) == 0.0);
}

TEST_CASE("counted activations and parameters of a tagger are the real ones") {
  const TaggingBatch batch = RandomBatch({9, 16, 12}, 5);
  const BertBatch counted{.tokens = batch.sequences.tokens(), .texts = 3};
  BertTokenClassifierOptions options = GENERATE(from_range(SmallModels()));
  INFO(options.bert.family->title);
  for (const float dropout : {0.0f, 0.1f}) {
    options.bert.dropout = options.classifier_dropout = dropout;
    const ModelCosts costs = CostsOf(options, counted);
    CHECK(costs.parameters == BertTokenClassifier(options).parameters().num_elements());
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const Recompute recompute : {Recompute::kNone, Recompute::kCheap, Recompute::kFull}) {
        INFO("dropout " << dropout << ", " << Name(type) << ", recompute "
                        << static_cast<int>(recompute));
        const auto model = Fresh(options, type);
        Context ctx(testing::TestDevice(), {.compute_type = type, .recompute = recompute});
        ctx.set_training(true);
        model->Forward(testing::Numbered(batch), ctx);
        model->Backward(ctx);
        CHECK(costs.peak_bytes({.compute_type = type,
                                .recompute = recompute,
                                .device = testing::TestDevice().type}) ==
              static_cast<int64_t>(ctx.activations().peak()));
      }
    }
  }
}

}  // namespace
}  // namespace dtrain
