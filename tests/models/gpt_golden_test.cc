// gpt_golden_test.cc - a GPT against transformers' GPT2LMHeadModel: logits, losses, gradients.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "dtrain/models/gpt.h"
#include "testing/catch.h"
#include "testing/golden.h"
#include "testing/test_device.h"
#include "testing/tolerance.h"

namespace dtrain {
namespace {

using testing::Golden;

constexpr double kTolerance = ToleranceOf(DType::kFloat32);

// The model of tests/golden/gpt2_tiny.safetensors.
GptOptions TinyOptions() {
  return {.vocab_size = 67,
          .hidden_size = 24,
          .num_layers = 2,
          .num_heads = 3,
          .ffn_size = 40,
          .max_positions = 16,
          .dropout = 0.0f,
          .attention_dropout = 0.0f};
}

// Where the file has the tensor of a parameter: a matrix is transposed there, and q, k and v are
// the columns of one.
struct Place {
  std::string name;
  int64_t first = 0;    // column
  int64_t columns = 0;  // of the matrix there; 0: the tensor is as here
};
Place PlaceOf(const Parameter& parameter) {
  std::string name = parameter.name();
  const int64_t outs = parameter.shape()[0];
  const char* const parts[] = {".attn.q.", ".attn.k.", ".attn.v."};
  for (int64_t part = 0; part < 3; ++part) {
    const size_t at = name.find(parts[part]);
    if (at == std::string::npos) continue;
    name.replace(at, 8, ".attn.c_attn.");
    return {name, part * outs, 3 * outs};
  }
  const bool is_matrix = name.find(".h.") != std::string::npos && parameter.shape().rank() == 2;
  return {name, 0, is_matrix ? outs : 0};
}

std::vector<float> Expected(const Golden& golden, const std::string& prefix,
                            const Parameter& parameter) {
  const Place place = PlaceOf(parameter);
  const std::vector<float> there = golden.Floats(prefix + place.name);
  if (place.columns == 0) return there;
  const int64_t outs = parameter.shape()[0];
  if (parameter.shape().rank() == 1) {
    return {there.begin() + place.first, there.begin() + place.first + outs};
  }
  std::vector<float> here;
  for (int64_t out = 0; out < outs; ++out) {
    for (int64_t in = 0; in < parameter.shape()[1]; ++in) {
      here.push_back(there[static_cast<size_t>(in * place.columns + place.first + out)]);
    }
  }
  return here;
}

TEST_CASE("logits, losses and gradients of a GPT are those of GPT2LMHeadModel") {
  const Golden golden("gpt2_tiny");
  Gpt model(TinyOptions());
  model.Allocate(testing::TestDevice(), DType::kFloat32, /*seed=*/1);
  for (Parameter* parameter : model.parameters().in_backward_order()) {
    testing::SetElements(Expected(golden, "", *parameter), parameter->master());
  }
  model.parameters().RefreshComputeWeights();
  const GptBatch batch{.input_ids = golden.Ints("input.ids"),
                       .target_ids = golden.Ints("target.ids"),
                       .sequences = Sequences(golden.Ints("offsets"))};
  Context ctx(testing::TestDevice());
  CHECK(testing::GoldenError(golden, "logits", model.Logits(batch, ctx)) < kTolerance);
  ctx.set_training(true);
  const LossSums sums = model.Forward(batch, ctx);
  CHECK(sums.loss == Approx(double{golden.Scalar("loss")}).epsilon(kTolerance));
  model.Backward(ctx);
  for (Parameter* parameter : model.parameters().in_backward_order()) {
    INFO(parameter->name());
    const std::vector<float> expected = Expected(golden, "grad.", *parameter);
    const std::vector<float> actual = testing::ElementsOf<float>(parameter->gradient());
    if (parameter->name().ends_with("attn.k.bias")) continue;  // zero but for rounding
    const std::vector<double> wide(expected.begin(), expected.end());
    CHECK(RelativeError(std::span<const float>(actual), wide) < kTolerance);
  }
}

}  // namespace
}  // namespace dtrain
