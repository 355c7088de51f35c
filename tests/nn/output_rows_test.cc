// output_rows_test.cc - a stack that computes some rows alone, against all rows computed.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/device/tensor.h"
#include "dtrain/nn/transformer_layer.h"
#include "dtrain/ops/cast.h"
#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/test_device.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr int64_t kHidden = 16;

TransformerStackOptions SmallStack() {
  return {.layer = {.hidden_size = kHidden,
                    .ffn_size = 48,
                    .num_heads = 2,
                    .activation = Activation::kGeluErf,
                    .dropout = 0.0f},
          .num_layers = 3};
}

// Three sentences; of the first one two rows are read, of the second none, of the third its last.
const Sequences& Sentences() {
  static const Sequences sentences({0, 5, 9, 12});
  return sentences;
}
OutputRows SomeRows(Context& ctx) {
  return {ctx.Upload(std::vector<int32_t>{0, 3, 11}), Sequences({0, 2, 2, 3})};
}

struct Pass {
  Values y, dx;
  Values gradients;  // of all parameters
};

// Of a tensor that may lie where only its device reaches it.
Values ValuesOnDevice(const Tensor& tensor) {
  Stream stream(TestDevice());
  Tensor visible = Empty(TestArena(), tensor.shape(), tensor.dtype());
  CopyTensor(tensor, visible, stream);
  return ValuesOf(visible);
}

// Forward and backward of freshly initialised weights; `y` and `dy` are those of SomeRows() however
// many rows are computed.
Pass Run(bool some_rows, const ContextOptions& context) {
  ParameterSet parameters;
  TransformerStack stack(Scope(parameters, "encoder"), SmallStack());
  parameters.Allocate(TestDevice(), context.compute_type, /*seed=*/1);
  Context ctx(TestDevice(), context);
  ctx.set_training(true);
  const OutputRows rows = SomeRows(ctx);
  const LayerInputs inputs{Sentences(), Tensor(), Sentences(), some_rows ? &rows : nullptr};
  const Tensor x = Random({Sentences().tokens(), kHidden}, context.compute_type, 1);
  const Tensor dy = Random({rows.sequences.tokens(), kHidden}, context.compute_type, 2);
  Tensor y = stack.Forward(x, inputs, ctx);
  Tensor d_output = dy;
  if (!some_rows) {
    const Tensor all = y;
    y = ctx.Empty(dy.shape());
    GatherRows(all, rows.rows, y, ctx.stream());
    d_output = ctx.Empty(x.shape());
    Zero(d_output, ctx.stream());
    ScatterAddRows(dy, rows.rows, d_output, ctx.stream());
  }
  Tensor none;
  const Tensor dx = stack.Backward(std::move(d_output), inputs, none, ctx);
  FinishOps();
  return {ValuesOnDevice(y), ValuesOnDevice(dx), ValuesOnDevice(parameters.gradients())};
}

// Of the whole: with three layers, single gradients in bfloat16 differ by more than one rounding.
double RelativeDistance(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  Values difference = a;
  for (size_t i = 0; i < b.size(); ++i) difference[i] -= b[i];
  return std::sqrt(Dot(difference, difference) / Dot(b, b));
}

TEST_CASE("rows computed alone are those of all rows, and so are the gradients") {
  const DType dtype = GENERATE(DType::kFloat32, DType::kBFloat16);
  INFO(Name(dtype));
  const Pass all = Run(false, {.compute_type = dtype});
  const Pass some = Run(true, {.compute_type = dtype});
  const double tolerance = ToleranceOf(dtype);
  CHECK(RelativeDistance(some.y, all.y) < tolerance);
  CHECK(RelativeDistance(some.dx, all.dx) < tolerance);
  CHECK(RelativeDistance(some.gradients, all.gradients) < tolerance);
}

TEST_CASE("rows computed alone have the same gradients whatever is recomputed") {
  const Pass none = Run(true, {});
  for (const Recompute recompute : {Recompute::kCheap, Recompute::kEveryK, Recompute::kFull}) {
    INFO("recompute " << static_cast<int>(recompute));
    const Pass pass = Run(true, {.recompute = recompute});
    CHECK(pass.dx == none.dx);
    CHECK(pass.gradients == none.gradients);
  }
}

TEST_CASE("layers other than post-norm encoders refuse to compute rows alone") {
  for (const std::string kind : {"pre-norm", "causal"}) {
    TransformerStackOptions options = SmallStack();
    (kind == "causal" ? options.layer.causal : options.layer.pre_norm) = true;
    ParameterSet parameters;
    TransformerStack stack(Scope(parameters, "encoder"), options);
    parameters.Allocate(TestDevice(), DType::kFloat32, 1);
    Context ctx(TestDevice());
    const OutputRows rows = SomeRows(ctx);
    const Tensor x = Random({Sentences().tokens(), kHidden}, DType::kFloat32, 1);
    CHECK_THAT(MessageOf([&] {
                 stack.Forward(x, {Sentences(), Tensor(), Sentences(), &rows}, ctx);
               }),
               Catch::Contains("post-norm encoders"));
  }
}

}  // namespace
}  // namespace dtrain
