// transformer_layer_test.cc - layers and their blocks, each alone, against PyTorch.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/transformer_layer.h"

#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/nn/attention.h"
#include "dtrain/nn/feed_forward.h"
#include "dtrain/nn/transformer_layer.h"
#include "dtrain/ops/cast.h"
#include "testing/catch.h"
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

// A stack of causal layers, as a language model has, over two sentences.
class CausalStack {
 public:
  explicit CausalStack(bool pre_norm, Recompute recompute = Recompute::kNone)
      : ctx_({}, {.recompute = recompute}),
        stack_(Scope(parameters_, "lm"), {.layer = {.hidden_size = kHidden,
                                                    .ffn_size = 32,
                                                    .num_heads = 2,
                                                    .activation = Activation::kGeluTanh,
                                                    .pre_norm = pre_norm,
                                                    .dropout = 0.0f,
                                                    .causal = true},
                                          .num_layers = 2}) {
    parameters_.Allocate({}, DType::kFloat32, 1);
  }

  static constexpr int64_t kHidden = 16;
  Sequences sequences_{std::vector<int32_t>{0, 5, 9}};
  ParameterSet parameters_;
  Context ctx_;
  TransformerStack stack_;

  LayerInputs Inputs() const { return {sequences_, Tensor(), sequences_}; }
  Tensor Input(uint32_t seed) {
    Tensor x = ctx_.Empty({sequences_.tokens(), kHidden});
    RandomStream random({.seed = seed});
    for (int64_t i = 0; i < x.elements(); ++i) {
      x.data<float>()[i] = static_cast<float>(random.NextUint32() % 2001) * 1e-3f - 1.0f;
    }
    return x;
  }
};

TEST_CASE("a causal layer sees no later token and no other sentence") {
  for (const bool pre_norm : {false, true}) {
    CausalStack lm(pre_norm);
    Tensor x = lm.Input(1);
    const Tensor before = lm.stack_.Forward(x, lm.Inputs(), lm.ctx_);
    x.data<float>()[3 * CausalStack::kHidden] += 0.5f;  // of token 3, the fourth of five
    const Tensor after = lm.stack_.Forward(x, lm.Inputs(), lm.ctx_);
    for (int64_t t = 0; t < lm.sequences_.tokens(); ++t) {
      INFO("token " << t);
      const auto row = [&](const Tensor& y) {
        const float* const begin = y.data<float>() + t * CausalStack::kHidden;
        return std::vector<float>(begin, begin + CausalStack::kHidden);
      };
      CHECK((row(before) == row(after)) == (t != 3 && t != 4));
    }
  }
}

TEST_CASE("gradients of causal layers are those of differences, with any recomputation") {
  for (const bool pre_norm : {false, true}) {
    for (const Recompute recompute :
         {Recompute::kNone, Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
      INFO("pre_norm " << pre_norm << ", recompute " << static_cast<int>(recompute));
      CausalStack lm(pre_norm, recompute);
      const Tensor x = lm.Input(1);
      const Tensor dy = lm.Input(2);
      const auto loss = [&] {
        const Tensor y = lm.stack_.Forward(x, lm.Inputs(), lm.ctx_);
        double sum = 0.0;
        for (int64_t i = 0; i < y.elements(); ++i) {
          sum += double{y.data<float>()[i]} * double{dy.data<float>()[i]};
        }
        return sum;
      };
      lm.ctx_.set_training(true);
      lm.stack_.Forward(x, lm.Inputs(), lm.ctx_);
      Tensor none;
      const Tensor dx = lm.stack_.Backward(dy, lm.Inputs(), none, lm.ctx_);
      lm.ctx_.set_training(false);
      for (int64_t i = 0; i < x.elements(); i += 7) {
        INFO("element " << i);
        float& value = x.data<float>()[i];
        const float kept = value;
        constexpr float kStep = 1e-2f;
        value = kept + kStep;
        const double high = loss();
        value = kept - kStep;
        const double low = loss();
        value = kept;
        CHECK(dx.data<float>()[i] ==
              Approx((high - low) / (2.0 * kStep)).margin(0.02).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("a causal stack position by position gives what it gives all at once") {
  for (const bool pre_norm : {false, true}) {
    CausalStack lm(pre_norm);
    const Tensor x = lm.Input(1).Rows(0, 5);  // the first sentence
    const Sequences sentence({0, 5});
    const Tensor whole = lm.stack_.Forward(x, {sentence, Tensor(), sentence}, lm.ctx_);
    std::vector<LayerCache> caches(lm.stack_.size());
    for (size_t i = 0; i < caches.size(); ++i) {
      lm.stack_.layer(i).StartDecoding(Tensor(), /*slots=*/5, caches[i], lm.ctx_);
    }
    std::vector<int32_t> slots;
    for (int32_t t = 0; t < 5; ++t) {
      slots.push_back(t);
      Tensor y = x.Rows(t, t + 1);
      for (size_t i = 0; i < caches.size(); ++i) {
        y = lm.stack_.layer(i).ForwardStep(y,
                                           {.slots = lm.ctx_.Upload(slots).Reshape({1, t + 1}),
                                            .first_slot = t,
                                            .rows = sentence,
                                            .memory_sequences = sentence},
                                           caches[i], lm.ctx_);
      }
      for (int64_t i = 0; i < CausalStack::kHidden; ++i) {
        CHECK(y.data<float>()[i] ==
              Approx(whole.data<float>()[t * CausalStack::kHidden + i]).margin(1e-5));
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
      const Tensor y =
          feed_forward.Forward(pre_norm ? final_norm.Forward(x, ctx) : x, Tensor(), ctx);
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
