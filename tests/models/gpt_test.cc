// gpt_test.cc - a GPT's losses and gradients, its memory, and texts that it continues.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/device/arena.h"
#include "dtrain/models/gpt_costs.h"
#include "dtrain/models/gpt_sampling.h"
#include "testing/catch.h"
#include "testing/golden.h"
#include "testing/numbered_batch.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

GptOptions SmallOptions() {
  return {.vocab_size = 31,
          .hidden_size = 16,
          .num_layers = 2,
          .num_heads = 2,
          .ffn_size = 24,
          .max_positions = 16,
          .dropout = 0.0f,
          .attention_dropout = 0.0f,
          .initializer_range = 0.3f};
}

std::unique_ptr<Gpt> Fresh(const GptOptions& options, DType type = DType::kFloat32) {
  auto model = std::make_unique<Gpt>(options);
  model->Allocate(testing::TestDevice(), type, /*seed=*/3);
  return model;
}

std::vector<int32_t> RandomIds(int64_t count, uint64_t seed = 5) {
  RandomStream random({.seed = seed});
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random.NextBelow(31)));
  return ids;
}

// Texts of these lengths, each of which predicts its own next tokens.
GptBatch RandomBatch(const std::vector<int32_t>& lengths) {
  GptBatch batch;
  std::vector<int32_t> offsets = {0};
  uint64_t seed = 5;
  for (const int32_t length : lengths) {
    const std::vector<int32_t> ids = RandomIds(length + 1, ++seed);
    batch.input_ids.insert(batch.input_ids.end(), ids.begin(), ids.end() - 1);
    batch.target_ids.insert(batch.target_ids.end(), ids.begin() + 1, ids.end());
    offsets.push_back(static_cast<int32_t>(batch.input_ids.size()));
  }
  batch.sequences = Sequences(std::move(offsets));
  return batch;
}

TEST_CASE("the loss of a GPT is the cross-entropy of its logits") {
  const auto model = Fresh(SmallOptions());
  const GptBatch batch = RandomBatch({5, 16, 3});
  Context ctx(testing::TestDevice());
  const std::vector<float> logits = testing::ElementsOf<float>(model->Logits(batch, ctx));
  REQUIRE(logits.size() == 24 * 31);
  double total = 0.0;
  for (size_t token = 0; token < 24; ++token) {
    const float* const row = logits.data() + 31 * token;
    double sum = 0.0;
    for (int id = 0; id < 31; ++id) sum += std::exp(double{row[id]});
    total += std::log(sum) - double{row[batch.target_ids[token]]};
  }
  const LossSums sums = model->Forward(batch, ctx);
  CHECK(sums.tokens == 24);
  CHECK(sums.loss == Approx(total).epsilon(1e-5));
  CHECK(sums.nll == Approx(total).epsilon(1e-5));
}

TEST_CASE("a token sees those before it in its own text, and no others") {
  const auto model = Fresh(SmallOptions());
  Context ctx(testing::TestDevice());
  const GptBatch all = RandomBatch({6, 7});
  const std::vector<float> expected = testing::ElementsOf<float>(model->Logits(all, ctx));
  GptBatch changed = all;
  changed.input_ids[9] = (changed.input_ids[9] + 1) % 31;  // the fourth of the second text
  const std::vector<float> logits = testing::ElementsOf<float>(model->Logits(changed, ctx));
  for (size_t token = 0; token < 13; ++token) {
    const auto begin = static_cast<std::ptrdiff_t>(31 * token);
    const bool is_same =
        std::equal(logits.begin() + begin, logits.begin() + begin + 31, expected.begin() + begin);
    INFO("token " << token);
    CHECK(is_same == (token < 9));
  }
}

TEST_CASE("gradients of all parameters of a GPT match finite differences") {
  if (testing::TestDevice().type != DeviceType::kCpu) return;  // weights are changed in place
  const auto model = Fresh(SmallOptions());
  const GptBatch batch = RandomBatch({9, 4});
  Context ctx(testing::TestDevice());
  ctx.set_training(true);
  model->Forward(batch, ctx);
  model->Backward(ctx);
  CHECK(ctx.activations().used() == 0);
  Context evaluation(testing::TestDevice());
  const auto loss = [&] { return model->Forward(batch, evaluation).loss; };
  int compared = 0;
  // Along the gradient of each parameter, so that rounding stays small beside the change.
  for (Parameter* parameter : model->parameters().in_backward_order()) {
    const std::vector<float> own = testing::ElementsOf<float>(parameter->gradient());
    double norm = 0.0;
    for (const float g : own) norm += double{g} * g;
    INFO(parameter->name() << ", squared norm " << norm);
    // A constant added to all keys changes no probability.
    const bool is_key_bias = parameter->name().ends_with("attn.k.bias");
    CHECK((norm < 1e-6) == is_key_bias);
    if (is_key_bias) continue;
    float* const at = parameter->master().data<float>();
    const std::vector<float> before(at, at + own.size());
    const double step = 1e-2 / std::sqrt(norm);
    const auto shifted = [&](double by) {
      for (size_t i = 0; i < own.size(); ++i) {
        at[i] = static_cast<float>(before[i] + by * double{own[i]});
      }
      return loss();
    };
    const double difference = (shifted(step) - shifted(-step)) / (2.0 * step);
    std::copy(before.begin(), before.end(), at);
    CHECK(difference == Approx(norm).epsilon(0.02));
    ++compared;
  }
  CHECK(compared == 2 + 2 * 15 + 2);
}

TEST_CASE("a rank without texts has gradients that are ready, and none of them changed") {
  const auto model = Fresh(SmallOptions());
  Context ctx(testing::TestDevice());
  ctx.set_training(true);
  size_t ready = 0;
  model->parameters().SetReadyListener([&](const Parameter&) { ++ready; });
  CHECK(model->Forward(GptBatch(), ctx).tokens == 0);
  model->Backward(ctx);
  CHECK(ready == model->parameters().in_backward_order().size());
  CHECK(testing::LargestMagnitude(model->parameters().gradients()) == 0.0);
}

TEST_CASE("counted activations and parameters of a GPT are the real ones") {
  const GptBatch batch = RandomBatch({9, 16, 12});
  const BertBatch counted{.tokens = batch.sequences.tokens(), .texts = 3};
  GptOptions options = SmallOptions();
  options.num_layers = 3;
  for (const float dropout : {0.0f, 0.1f}) {
    options.dropout = options.attention_dropout = dropout;
    const ModelCosts costs = CostsOf(options, counted);
    CHECK(costs.parameters == Gpt(options).parameters().num_elements());
    for (const DType type : testing::FloatTypes()) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
        for (const bool training : {true, false}) {
          INFO("dropout " << dropout << ", " << Name(type) << ", recompute "
                          << static_cast<int>(recompute) << ", training " << training);
          const auto model = Fresh(options, type);
          Context ctx(testing::TestDevice(), {.compute_type = type, .recompute = recompute});
          ctx.set_training(training);
          model->Forward(training ? testing::Numbered(batch) : batch, ctx);
          if (training) model->Backward(ctx);
          CHECK(costs.peak_bytes({.compute_type = type,
                                  .recompute = recompute,
                                  .device = testing::TestDevice().type,
                                  .training = training}) ==
                static_cast<int64_t>(ctx.activations().peak()));
        }
      }
    }
  }
}

TEST_CASE("recomputation gives a GPT the same gradients, to the last bit") {
  GptOptions options = SmallOptions();
  options.dropout = options.attention_dropout = 0.1f;
  const GptBatch batch = testing::Numbered(RandomBatch({9, 16, 12}));
  const auto gradients = [&](Recompute recompute) {
    const auto model = Fresh(options);
    Context ctx(testing::TestDevice(), {.recompute = recompute});
    ctx.set_training(true);
    model->Forward(batch, ctx);
    model->Backward(ctx);
    return testing::ElementsOf<float>(model->parameters().gradients());
  };
  const std::vector<float> kept = gradients(Recompute::kNone);
  for (const Recompute recompute : {Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
    CHECK(gradients(recompute) == kept);
  }
}

// The likeliest next token, from a forward pass over all that there is.
int32_t LikeliestAfter(Gpt& model, const std::vector<int32_t>& ids, Context& ctx) {
  const GptBatch batch{.input_ids = ids,
                       .target_ids = std::vector<int32_t>(ids.size(), 0),
                       .sequences = Sequences({0, static_cast<int32_t>(ids.size())})};
  const std::vector<float> logits = testing::ElementsOf<float>(model.Logits(batch, ctx));
  return static_cast<int32_t>(std::max_element(logits.end() - 31, logits.end()) -
                              (logits.end() - 31));
}

TEST_CASE("texts made with cached keys and values are those of whole forward passes") {
  const auto model = Fresh(SmallOptions());
  Context ctx(testing::TestDevice());
  const std::vector<std::vector<int32_t>> prompts = {RandomIds(3, 7), RandomIds(1, 8),
                                                     RandomIds(9, 9)};
  const auto texts = Sample(*model, prompts, {.max_tokens = 10, .temperature = 0.0f}, ctx);
  REQUIRE(texts.size() == 3);
  for (size_t i = 0; i < prompts.size(); ++i) {
    std::vector<int32_t> ids = prompts[i];
    // The last position reads a token, too, and the one after that is not read.
    const size_t count = std::min<size_t>(10, 16 + 1 - ids.size());
    std::vector<int32_t> expected;
    for (size_t n = 0; n < count; ++n) {
      expected.push_back(LikeliestAfter(*model, ids, ctx));
      ids.push_back(expected.back());
    }
    INFO("prompt " << i);
    CHECK(texts[i] == expected);
  }
  CHECK(ctx.activations().used() == 0);
}

TEST_CASE("drawn texts depend on their seed and their place, not on the others beside them") {
  const auto model = Fresh(SmallOptions());
  Context ctx(testing::TestDevice());
  const std::vector<std::vector<int32_t>> prompts(5, RandomIds(2, 7));
  SamplingOptions options{.max_tokens = 12, .seed = 4};
  const auto texts = Sample(*model, prompts, options, ctx);
  CHECK(texts[0] != texts[1]);  // the same prompt, other numbers
  options.batch_texts = 2;
  CHECK(Sample(*model, prompts, options, ctx) == texts);
  options.first_text = 3;
  CHECK(Sample(*model, std::span(prompts).subspan(3), options, ctx) ==
        std::vector<std::vector<int32_t>>(texts.begin() + 3, texts.end()));
  options = {.max_tokens = 12, .seed = 5};
  CHECK(Sample(*model, prompts, options, ctx) != texts);
}

TEST_CASE("a text ends at its end mark, which is not part of it") {
  const auto model = Fresh(SmallOptions());
  Context ctx(testing::TestDevice());
  const std::vector<std::vector<int32_t>> prompt = {RandomIds(2, 7)};
  const auto whole = Sample(*model, prompt, {.max_tokens = 12, .seed = 4}, ctx).front();
  REQUIRE(whole.size() == 12);
  const int32_t end = whole[5];
  const auto at = std::find(whole.begin(), whole.end(), end);
  const auto ended = Sample(*model, prompt, {.max_tokens = 12, .seed = 4, .end_id = end}, ctx);
  CHECK(ended.front() == std::vector<int32_t>(whole.begin(), at));
}

TEST_CASE("ids are drawn by their probabilities, of the top_k likeliest alone") {
  const std::vector<float> logits = {0.0f, std::log(2.0f), -50.0f, std::log(5.0f)};
  const auto draw = [&](const SamplingOptions& options, float number) {
    return DrawId(logits, options, number);
  };
  // 1, 2, 0 and 5 eighths.
  CHECK(draw({}, 0.0f) == 0);
  CHECK(draw({}, 0.124f) == 0);
  CHECK(draw({}, 0.126f) == 1);
  CHECK(draw({}, 0.374f) == 1);
  CHECK(draw({}, 0.376f) == 3);
  CHECK(draw({}, 0.9999999f) == 3);
  // 2 and 5 sevenths.
  CHECK(draw({.top_k = 2}, 0.0f) == 1);
  CHECK(draw({.top_k = 2}, 0.29f) == 3);
  CHECK(draw({.top_k = 1}, 0.0f) == 3);
  CHECK(draw({.temperature = 0.0f}, 0.0f) == 3);
  // 1, 4 and 25 thirtieths.
  CHECK(draw({.temperature = 0.5f}, 0.16f) == 1);
  CHECK(draw({.temperature = 0.5f}, 0.17f) == 3);
}

}  // namespace
}  // namespace dtrain
