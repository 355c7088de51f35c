// feed_forward_test.cc - gated feed-forward blocks, and layers without biases.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/feed_forward.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "dtrain/device/arena.h"
#include "dtrain/nn/costs.h"
#include "dtrain/nn/layer_norm.h"
#include "dtrain/nn/transformer_layer.h"
#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/reference/activation.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;
constexpr int64_t kTokens = 9;
constexpr int64_t kHidden = 12;
constexpr int64_t kFfn = 10;

std::vector<std::string> NamesOf(const ParameterSet& parameters) {
  std::vector<std::string> names;
  for (const Parameter* parameter : parameters.in_backward_order()) {
    names.push_back(parameter->name());
  }
  return names;
}

// x W^T with W: [out, in], in double.
Values Product(const Values& x, const Values& weight, size_t in) {
  const size_t out = weight.size() / in;
  Values y(x.size() / in * out);
  for (size_t r = 0; r < x.size() / in; ++r) {
    for (size_t o = 0; o < out; ++o) {
      for (size_t i = 0; i < in; ++i) y[r * out + o] += x[r * in + i] * weight[o * in + i];
    }
  }
  return y;
}

// The gated block's result in double.
Values Gated(Activation activation, const Values& x, const Values& fc1, const Values& fc2) {
  const Values before = Product(x, fc1, kHidden);
  Values after(x.size() / kHidden * kFfn);
  for (size_t e = 0; e < after.size(); ++e) {
    const size_t a = e / kFfn * 2 * kFfn + e % kFfn;
    after[e] = reference::Activate(activation, before[a]) * before[a + kFfn];
  }
  return Product(after, fc2, kFfn);
}

// A gated block with its input and gradient.
struct Block {
  explicit Block(Activation activation, Recompute recompute = Recompute::kNone,
                 float dropout = 0.0f)
      : ctx({}, {.recompute = recompute}),
        feed_forward(Scope(parameters, "mlp"), {.hidden_size = kHidden,
                                                .ffn_size = kFfn,
                                                .activation = activation,
                                                .gated = true,
                                                .with_bias = false,
                                                .dropout = dropout,
                                                .fc1_name = "Wi",
                                                .fc2_name = "Wo"}) {
    parameters.Allocate({}, kF32, /*seed=*/1);
    ctx.set_training(true);
  }
  Values Master(const std::string& name) { return ValuesOf(parameters.Find(name)->master()); }
  Values Gradient(const std::string& name) { return ValuesOf(parameters.Find(name)->gradient()); }

  ParameterSet parameters;
  Context ctx;
  FeedForward feed_forward;
  Tensor x = Random({kTokens, kHidden}, kF32, 1);
  Tensor d_out = Random({kTokens, kHidden}, kF32, 2);
};

TEST_CASE("a gated block without biases has two matrices and gives what the formula says") {
  const Activation activation =
      GENERATE(Activation::kGeluErf, Activation::kSwish, Activation::kRelu);
  CAPTURE(Name(activation));
  Block block(activation);
  CHECK(NamesOf(block.parameters) == std::vector<std::string>{"mlp.Wo.weight", "mlp.Wi.weight"});
  CHECK(block.parameters.Find("mlp.Wi.weight")->shape() == Shape({2 * kFfn, kHidden}));
  CHECK(!block.feed_forward.output().bias());
  const Values x = ValuesOf(block.x);
  const Values fc1 = block.Master("mlp.Wi.weight");
  const Values fc2 = block.Master("mlp.Wo.weight");
  const Values d_out = ValuesOf(block.d_out);
  const Tensor y = block.feed_forward.Forward(block.x, {}, block.ctx);
  CHECK(Difference(y, Gated(activation, x, fc1, fc2)) < 1e-5);

  Tensor dx = Filled({kTokens, kHidden}, kF32, 5);
  block.feed_forward.Backward(block.x, {}, block.d_out, /*accumulate_dx=*/true, dx, block.ctx);
  const auto gradient_of = [&](const auto& of, const Values& at) {
    return NumericGradient([&](const Values& v) { return Dot(of(v), d_out); }, at);
  };
  const Values expected_dx =
      gradient_of([&](const Values& v) { return Gated(activation, v, fc1, fc2); }, x);
  CHECK(Difference(dx, Plus(expected_dx, Values(x.size(), 5.0))) < 1e-5);
  CHECK(Difference(block.Gradient("mlp.Wi.weight"),
                   gradient_of([&](const Values& v) { return Gated(activation, x, v, fc2); },
                               fc1)) < 1e-5);
  CHECK(Difference(block.Gradient("mlp.Wo.weight"),
                   gradient_of([&](const Values& v) { return Gated(activation, x, fc1, v); },
                               fc2)) < 1e-5);
}

TEST_CASE("a gated block computed again has the bits of the first, and frees its memory") {
  const auto run = [](Recompute recompute) {
    Block block(Activation::kGeluErf, recompute, /*dropout=*/0.3f);
    block.feed_forward.Forward(block.x, {}, block.ctx);
    const size_t kept = block.ctx.activations().used();
    Tensor dx = Filled({kTokens, kHidden}, kF32, 0);
    block.feed_forward.Backward(block.x, {}, block.d_out, /*accumulate_dx=*/false, dx, block.ctx);
    CHECK(block.ctx.activations().used() == 0);
    return std::tuple(kept, ValuesOf(dx), block.Gradient("mlp.Wi.weight"),
                      block.Gradient("mlp.Wo.weight"));
  };
  const auto [kept_all, dx, fc1, fc2] = run(Recompute::kNone);
  const auto [kept_less, dx_again, fc1_again, fc2_again] = run(Recompute::kCheap);
  CHECK(kept_less < kept_all);
  CHECK(dx == dx_again);
  CHECK(fc1 == fc1_again);
  CHECK(fc2 == fc2_again);
}

TEST_CASE("a gated block's biases get their gradients") {
  ParameterSet parameters;
  FeedForward feed_forward(
      Scope(parameters, "mlp"),
      {.hidden_size = kHidden, .ffn_size = kFfn, .activation = Activation::kTanh, .gated = true});
  parameters.Allocate({}, kF32, /*seed=*/1);
  REQUIRE(parameters.Find("mlp.fc1.bias") != nullptr);
  Tensor& bias = parameters.Find("mlp.fc1.bias")->master();
  for (int64_t i = 0; i < bias.elements(); ++i) bias.data<float>()[i] = 0.1f;
  Context ctx;
  ctx.set_training(true);
  const Tensor x = Random({kTokens, kHidden}, kF32, 1);
  const Tensor d_out = Random({kTokens, kHidden}, kF32, 2);
  const auto loss = [&] {
    return Dot(ValuesOf(feed_forward.Forward(x, {}, ctx)), ValuesOf(d_out));
  };
  loss();
  Tensor dx = Filled({kTokens, kHidden}, kF32, 0);
  feed_forward.Backward(x, {}, d_out, /*accumulate_dx=*/false, dx, ctx);
  ctx.set_training(false);
  for (const int64_t at : {int64_t{3}, kFfn + 3}) {
    float& value = bias.data<float>()[at];
    value = 0.11f;
    const double high = loss();
    value = 0.09f;
    const double low = loss();
    value = 0.1f;
    CHECK(ValueAt(parameters.Find("mlp.fc1.bias")->gradient(), at) ==
          Approx((high - low) / 0.02).epsilon(0.01).margin(0.01));
  }
}

// A layer as ModernBERT has it.
TransformerLayerOptions GatedLayer() {
  return {.hidden_size = 16,
          .ffn_size = 24,
          .num_heads = 2,
          .activation = Activation::kGeluErf,
          .gated = true,
          .attention_bias = false,
          .feed_forward_bias = false,
          .norm_bias = false,
          .pre_norm = true,
          .dropout = 0.0f};
}

TEST_CASE("a layer without biases has none, and as many parameters as counted") {
  const bool gated = GENERATE(true, false);
  const bool bias = GENERATE(true, false);
  TransformerLayerOptions options = GatedLayer();
  options.gated = gated;
  options.attention_bias = options.feed_forward_bias = options.norm_bias = bias;
  CAPTURE(gated, bias);
  ParameterSet parameters;
  const TransformerLayer layer(Scope(parameters, "layer"), options);
  parameters.Allocate({}, kF32, /*seed=*/1);
  const std::vector<std::string> names = NamesOf(parameters);
  CHECK(names.size() == (bias ? 16 : 8));
  const bool any = std::any_of(names.begin(), names.end(),
                               [](const std::string& name) { return name.ends_with("bias"); });
  CHECK(any == bias);
  CHECK(CountParameters(options).total() == parameters.num_elements());
}

TEST_CASE("a gate costs one more product") {
  TransformerLayerOptions options = GatedLayer();
  const LayerBatch batch = {.tokens = 7, .pairs = 20};
  const double gated = ForwardFlops(options, batch);
  options.gated = false;
  // Two operations for each of the gate's weights and each token.
  CHECK(gated - ForwardFlops(options, batch) == Approx(2.0 * 7 * 16 * 24));
}

TEST_CASE("layers without biases have gradients of differences, and take the memory counted") {
  const bool pre_norm = GENERATE(true, false);
  const bool gated = GENERATE(true, false);
  const Recompute recompute = GENERATE(Recompute::kNone, Recompute::kCheap, Recompute::kFull);
  CAPTURE(pre_norm, gated, static_cast<int>(recompute));
  TransformerLayerOptions options = GatedLayer();
  options.pre_norm = pre_norm;
  options.gated = gated;
  ParameterSet parameters;
  TransformerLayer layer(Scope(parameters, "layer"), options);
  parameters.Allocate({}, kF32, /*seed=*/1);
  Context ctx({}, {.recompute = recompute});
  const Sequences sequences({0, 5, 9});
  const LayerInputs inputs{sequences, Tensor(), sequences};
  Tensor x = Random({9, 16}, kF32, 1);
  const Tensor dy = Random({9, 16}, kF32, 2);
  Tensor none;
  ctx.set_training(true);
  const auto loss = [&] { return Dot(ValuesOf(layer.Forward(x, inputs, ctx)), ValuesOf(dy)); };
  loss();
  const Values dx = ValuesOf(layer.Backward(dy, inputs, none, ctx));
  CHECK(ctx.activations().used() == 0);
  const auto peak = static_cast<int64_t>(ctx.activations().peak());

  ByteMeter elsewhere;  // x and dy are not the layer's
  ByteMeter meter;
  LayerBlocks blocks(options, 9, /*memory_tokens=*/0, {.recompute = recompute}, meter);
  const LayerBlocks::Block input = elsewhere.Take(9 * 16, kF32);
  blocks.Forward(input);
  blocks.Backward(input);
  CHECK(meter.peak() == peak);

  ctx.set_training(false);
  for (int64_t i = 0; i < x.elements(); i += 11) {
    const double kept = ValueAt(x, i);
    SetAt(x, i, kept + 1e-2);
    const double high = loss();
    SetAt(x, i, kept - 1e-2);
    const double low = loss();
    SetAt(x, i, kept);
    CHECK(dx[static_cast<size_t>(i)] == Approx((high - low) / 2e-2).margin(0.02).epsilon(0.02));
  }
}

TEST_CASE("a layer norm without bias scales and adds nothing") {
  ParameterSet parameters;
  LayerNorm norm(Scope(parameters, "model"), "norm", 8, 1e-5f, /*with_bias=*/false);
  parameters.Allocate({}, kF32, /*seed=*/1);
  CHECK(NamesOf(parameters) == std::vector<std::string>{"model.norm.weight"});
  Context ctx;
  ctx.set_training(true);
  const Tensor x = Random({5, 8}, kF32, 1);
  const Tensor y = norm.Forward(x, ctx);
  const Values values = ValuesOf(y);
  for (size_t r = 0; r < 5; ++r) {
    double sum = 0.0;
    for (size_t c = 0; c < 8; ++c) sum += values[r * 8 + c];
    CHECK(sum == Approx(0.0).margin(1e-5));
  }
  norm.Backward(y, {}, ctx);
  const Values d_gamma = ValuesOf(parameters.Find("model.norm.weight")->gradient());
  Values expected(8);
  for (size_t e = 0; e < values.size(); ++e) expected[e % 8] += values[e] * values[e];
  CHECK(Difference(d_gamma, expected) < 1e-5);
}

}  // namespace
}  // namespace dtrain
