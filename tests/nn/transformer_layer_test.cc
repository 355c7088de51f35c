// transformer_layer_test.cc - layers and their blocks, each alone, against PyTorch.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/transformer_layer.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/nn/attention.h"
#include "dtrain/nn/feed_forward.h"
#include "dtrain/ops/cast.h"
#include "testing/golden.h"

namespace dtrain {
namespace {

using testing::Golden;
using testing::GoldenError;

constexpr double kTolerance = ToleranceOf(DType::kFloat32);

// What a stack makes of its layers: golden activations in, golden activations out.
class Stage {
 public:
  Stage(const testing::GoldenModel& model, const std::string& stack,
        const ContextOptions& context = {})
      : golden_(model.name),
        options_(model.options),
        stack_(stack),
        ctx_({}, context),
        source_(golden_.Ints("source.offsets")),
        target_(golden_.Ints("target.offsets")) {
    ctx_.set_training(true);
  }

  // Golden tensor as one of the layer's inputs, [tokens, hidden].
  Tensor Activation(const std::string& name) {
    const std::vector<float> values = golden_.Floats(name);
    Tensor tensor = ctx_.Empty(
        {static_cast<int64_t>(values.size()) / options_.hidden_size, options_.hidden_size});
    std::copy(values.begin(), values.end(), tensor.data<float>());
    return tensor;
  }
  std::string Prefix(int layer) const {
    return "model." + stack_ + ".layers." + std::to_string(layer);
  }
  // Input, output of layer i by their golden names; post-norm stacks end with the last layer.
  std::string InputName(int layer) const {
    return stack_ + (layer == 0 ? ".embedded" : ".layers." + std::to_string(layer - 1));
  }
  std::string OutputName(int layer) const {
    const std::string name = stack_ + ".layers." + std::to_string(layer);
    return golden_.Has("activation." + name) ? name : stack_ + ".output";
  }
  bool is_decoder() const { return stack_ == "decoder"; }
  const Sequences& sequences() const { return is_decoder() ? target_ : source_; }
  const Sequences& source() const { return source_; }
  TransformerLayerOptions LayerOptions() const {
    return {.hidden_size = options_.hidden_size,
            .ffn_size = options_.ffn_size,
            .num_heads = options_.num_heads,
            .activation = options_.activation,
            .pre_norm = options_.pre_norm,
            .dropout = 0.0f,
            .decoder = is_decoder()};
  }
  const Golden& golden() const { return golden_; }
  const Seq2SeqOptions& options() const { return options_; }
  Context& ctx() { return ctx_; }

  void Load(ParameterSet& parameters) {
    parameters.Allocate({}, DType::kFloat32, 1);
    testing::LoadGoldenWeights(golden_, parameters);
  }

  // Row vector `bias` added to every row, as a block's caller does.
  Tensor WithBias(const Tensor& x, const Linear& linear) {
    Tensor sum = ctx_.Empty(x.shape());
    const Tensor bias = linear.bias();
    for (int64_t i = 0; i < x.elements(); ++i) {
      sum.data<float>()[i] = x.data<float>()[i] + bias.data<float>()[i % x.dim(1)];
    }
    return sum;
  }

 private:
  Golden golden_;
  Seq2SeqOptions options_;
  std::string stack_;
  Context ctx_;
  Sequences source_, target_;
};

// A whole layer forward and backward. Parameter gradients are checked for all but key biases.
void CheckLayer(Stage& stage, int layer) {
  ParameterSet parameters;
  TransformerLayer tested(Scope(parameters, stage.Prefix(layer)), stage.LayerOptions());
  stage.Load(parameters);
  Context& ctx = stage.ctx();
  const Tensor memory =
      stage.is_decoder() ? stage.Activation("activation.encoder.output") : Tensor();
  const LayerInputs inputs{stage.sequences(), memory, stage.source()};
  const Tensor x = stage.Activation("activation." + stage.InputName(layer));
  const Tensor y = tested.Forward(x, inputs, ctx);
  CHECK(GoldenError(stage.golden(), "activation." + stage.OutputName(layer), y) < kTolerance);

  const Tensor dy = stage.Activation("activation_grad." + stage.OutputName(layer));
  Tensor d_memory;
  if (memory) {
    d_memory = ctx.Empty(memory.shape());
    Zero(d_memory, ctx.stream());
  }
  const Tensor dx = tested.Backward(dy, inputs, d_memory, ctx);
  CHECK(GoldenError(stage.golden(), "activation_grad." + stage.InputName(layer), dx) < kTolerance);
  for (const Parameter* parameter : parameters.in_backward_order()) {
    if (parameter->name().ends_with("k_proj.bias")) continue;
    INFO(parameter->name());
    CHECK(GoldenError(stage.golden(), "grad." + parameter->name(),
                      parameters.Find(parameter->name())->gradient()) < kTolerance);
  }
}

TEST_CASE("each layer alone gives PyTorch's outputs and gradients, with any recomputation") {
  for (const testing::GoldenModel& model : testing::GoldenModels()) {
    for (const std::string stack : {"encoder", "decoder"}) {
      const int layers =
          stack == "encoder" ? model.options.encoder_layers : model.options.decoder_layers;
      for (int layer = 0; layer < layers; ++layer) {
        for (const Recompute recompute : {Recompute::kNone, Recompute::kCheap, Recompute::kFull}) {
          INFO(model.name << ' ' << stack << ' ' << layer << ", recompute "
                          << static_cast<int>(recompute));
          Stage stage(model, stack, {.recompute = recompute});
          CheckLayer(stage, layer);
        }
      }
    }
  }
}

TEST_CASE("the gradients that decoder layers send to the encoder add up to PyTorch's") {
  for (const testing::GoldenModel& model : testing::GoldenModels()) {
    INFO(model.name);
    Stage stage(model, "decoder");
    Context& ctx = stage.ctx();
    const Tensor memory = stage.Activation("activation.encoder.output");
    Tensor d_memory = ctx.Empty(memory.shape());
    Zero(d_memory, ctx.stream());
    for (int layer = 0; layer < model.options.decoder_layers; ++layer) {
      ParameterSet parameters;
      TransformerLayer tested(Scope(parameters, stage.Prefix(layer)), stage.LayerOptions());
      stage.Load(parameters);
      const LayerInputs inputs{stage.sequences(), memory, stage.source()};
      tested.Forward(stage.Activation("activation." + stage.InputName(layer)), inputs, ctx);
      tested.Backward(stage.Activation("activation_grad." + stage.OutputName(layer)), inputs,
                      d_memory, ctx);
    }
    CHECK(GoldenError(stage.golden(), "activation_grad.encoder.output", d_memory) < kTolerance);
  }
}

// The blocks of layer 0; marian_tiny alone, where the block's input is a golden tensor itself
// (pre-norm blocks read a layer norm's output).
TEST_CASE("the self-attention block of encoder and decoder is PyTorch's") {
  for (const std::string stack : {"encoder", "decoder"}) {
    INFO(stack);
    Stage stage(testing::GoldenModels()[0], stack);
    ParameterSet parameters;
    MultiHeadAttention attention(Scope(parameters, stage.Prefix(0)) / "self_attn",
                                 {.hidden_size = stage.options().hidden_size,
                                  .num_heads = stage.options().num_heads,
                                  .causal = stage.is_decoder()});
    stage.Load(parameters);
    const Tensor x = stage.Activation("activation." + stack + ".embedded");
    const Tensor y =
        attention.Forward({x, stage.sequences(), Tensor(), stage.sequences()}, stage.ctx());
    CHECK(GoldenError(stage.golden(), "activation." + stack + ".layers.0.self_attn",
                      stage.WithBias(y, attention.output())) < kTolerance);
  }
}

TEST_CASE("a feed-forward block and cross-attention behind the blocks before them are PyTorch's") {
  for (const testing::GoldenModel& model : testing::GoldenModels()) {
    for (const std::string stack : {"encoder", "decoder"}) {
      INFO(model.name << ' ' << stack);
      Stage stage(model, stack);
      Context& ctx = stage.ctx();
      ctx.set_training(false);
      const bool pre_norm = stage.options().pre_norm;
      const int64_t hidden = stage.options().hidden_size;
      ParameterSet parameters;
      const Scope scope(parameters, stage.Prefix(0));
      LayerNorm self_norm(scope, "self_attn_layer_norm", hidden, 1e-5f);
      LayerNorm final_norm(scope, "final_layer_norm", hidden, 1e-5f);
      std::unique_ptr<LayerNorm> cross_norm;
      std::unique_ptr<MultiHeadAttention> cross;
      if (stage.is_decoder()) {
        cross_norm = std::make_unique<LayerNorm>(scope, "encoder_attn_layer_norm", hidden, 1e-5f);
        cross = std::make_unique<MultiHeadAttention>(
            scope / "encoder_attn",
            MultiHeadAttentionOptions{
                .hidden_size = hidden, .num_heads = stage.options().num_heads, .cross = true});
      }
      FeedForward feed_forward(scope, {.hidden_size = hidden,
                                       .ffn_size = stage.options().ffn_size,
                                       .activation = stage.options().activation});
      stage.Load(parameters);
      // x + block, normed where the stack is post-norm; golden blocks keep errors from adding up.
      Tensor x = stage.Activation("activation." + stack + ".embedded");
      const auto add = [&](const std::string& block, LayerNorm& norm) {
        const Tensor result = stage.Activation("activation." + stack + ".layers.0." + block);
        Tensor sum = ctx.Empty(x.shape());
        for (int64_t i = 0; i < x.elements(); ++i) {
          sum.data<float>()[i] = x.data<float>()[i] + result.data<float>()[i];
        }
        x = pre_norm ? sum : norm.Forward(sum, ctx);
      };
      add("self_attn", self_norm);
      if (cross) {
        const Tensor input = pre_norm ? cross_norm->Forward(x, ctx) : x;
        const Tensor memory = stage.Activation("activation.encoder.output");
        const Tensor y = cross->Forward({input, stage.sequences(), memory, stage.source()}, ctx);
        CHECK(GoldenError(stage.golden(), "activation.decoder.layers.0.encoder_attn",
                          stage.WithBias(y, cross->output())) < kTolerance);
        add("encoder_attn", *cross_norm);
      }
      const Tensor y = feed_forward.Forward(pre_norm ? final_norm.Forward(x, ctx) : x, ctx);
      CHECK(GoldenError(stage.golden(), "activation." + stack + ".layers.0.fc2",
                        stage.WithBias(y, feed_forward.output())) < kTolerance);
    }
  }
}

TEST_CASE("a layer's backward without its forward is refused") {
  Stage stage(testing::GoldenModels()[0], "encoder");
  ParameterSet parameters;
  TransformerLayer layer(Scope(parameters, stage.Prefix(0)), stage.LayerOptions());
  stage.Load(parameters);
  Tensor none;
  const Tensor dy = stage.Activation("activation_grad.encoder.layers.0");
  CHECK_THROWS_WITH(
      layer.Backward(dy, {stage.sequences(), Tensor(), stage.source()}, none, stage.ctx()),
      Catch::Contains("Backward() without Forward()"));
}

}  // namespace
}  // namespace dtrain
