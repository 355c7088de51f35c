// output_loss_test.cc - the projected loss and its gradients against plain loops, slice by slice.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/output_loss.h"

#include <cmath>
#include <span>
#include <vector>

#include "dtrain/base/random.h"
#include "testing/catch.h"
#include "testing/test_device.h"
#include "testing/tolerance.h"

namespace dtrain {
namespace {

using testing::ElementsOf;
using testing::TestDevice;
using Values = std::vector<double>;

// As the type holds them.
Values Random(int64_t count, DType dtype, uint64_t seed) {
  RandomStream random({.seed = seed});
  Values values;
  for (int64_t i = 0; i < count; ++i) {
    float value = random.NextUniform() - 0.5f;
    if (dtype == DType::kBFloat16) value = static_cast<float>(BFloat16(value));
    values.push_back(double{value});
  }
  return values;
}

std::vector<float> Floats(const Values& values) { return {values.begin(), values.end()}; }

// [rows, hidden] times [classes, hidden] transposed plus a bias, and its cross-entropy.
struct Reference {
  Reference(const Values& hidden, const Values& weight, const Values& bias,
            const std::vector<int32_t>& targets, double scale)
      : classes(bias.size()), columns(weight.size() / classes) {
    d_hidden.resize(hidden.size());
    d_weight.resize(weight.size());
    d_bias.resize(classes);
    for (size_t row = 0; row < targets.size(); ++row) {
      Values p(classes);
      double sum = 0.0;
      size_t best = 0;
      for (size_t c = 0; c < classes; ++c) {
        double logit = bias[c];
        for (size_t k = 0; k < columns; ++k)
          logit += hidden[row * columns + k] * weight[c * columns + k];
        p[c] = std::exp(logit);
        sum += p[c];
        if (p[c] > p[best]) best = c;
      }
      const auto target = static_cast<size_t>(targets[row]);
      loss -= std::log(p[target] / sum);
      predictions.push_back(static_cast<int32_t>(best));
      for (size_t c = 0; c < classes; ++c) {
        const double d = scale * (p[c] / sum - (c == target ? 1.0 : 0.0));
        d_bias[c] += d;
        for (size_t k = 0; k < columns; ++k) {
          d_hidden[row * columns + k] += d * weight[c * columns + k];
          d_weight[c * columns + k] += d * hidden[row * columns + k];
        }
      }
    }
  }

  size_t classes, columns;
  double loss = 0.0;
  std::vector<int32_t> predictions;
  Values d_hidden, d_weight, d_bias;
};

double ErrorOf(const Tensor& actual, const Values& expected) {
  const Tensor wide = actual;
  if (actual.dtype() == DType::kBFloat16) {
    std::vector<float> values;
    for (const BFloat16 value : ElementsOf<BFloat16>(wide)) values.push_back(float(value));
    return RelativeError(std::span<const float>(values), expected);
  }
  const std::vector<float> values = ElementsOf<float>(wide);
  return RelativeError(std::span<const float>(values), expected);
}

struct Case {
  Case(int64_t rows, int64_t classes, int64_t columns, DType dtype, bool with_bias)
      : ctx(TestDevice(), {.compute_type = dtype}),
        weight(Scope(parameters, "").Add("weight", {classes, columns}, Initializer::Normal(0.1f))),
        bias(Scope(parameters, "").Add("bias", {classes}, Initializer::Constant(0.0f))),
        loss(weight, {}, with_bias ? &bias : nullptr),
        hidden_values(Random(rows * columns, dtype, 1)),
        weight_values(Random(classes * columns, dtype, 2)),
        bias_values(with_bias ? Random(classes, dtype, 3) : Values(static_cast<size_t>(classes))) {
    parameters.Allocate(TestDevice(), dtype, 1);
    testing::SetElements(Floats(weight_values), weight.master());
    testing::SetElements(Floats(bias_values), bias.master());
    parameters.RefreshComputeWeights();
    hidden = ctx.Empty({rows, columns});
    if (dtype == DType::kBFloat16) {
      std::vector<BFloat16> narrow;
      for (const double value : hidden_values) narrow.emplace_back(static_cast<float>(value));
      testing::SetElements(narrow, hidden);
    } else {
      testing::SetElements(Floats(hidden_values), hidden);
    }
    RandomStream random({.seed = 4});
    for (int64_t row = 0; row < rows; ++row) {
      targets.push_back(static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(classes))));
    }
  }

  ParameterSet parameters;
  Context ctx;
  Parameter& weight;
  Parameter& bias;
  OutputLoss loss;
  Values hidden_values, weight_values, bias_values;
  Tensor hidden;
  std::vector<int32_t> targets;
};

// A trainer's.
LossTensors ScaledLoss(float scale, Context& ctx) {
  LossTensors loss{.scale = ctx.Empty({1}, DType::kFloat32),
                   .loss_sum = ctx.Empty({1}, DType::kFloat64),
                   .nll_sum = ctx.Empty({1}, DType::kFloat64)};
  testing::SetElements(std::vector<float>{scale}, loss.scale);
  testing::SetElements(std::vector<double>{0.0}, loss.loss_sum);
  testing::SetElements(std::vector<double>{0.0}, loss.nll_sum);
  return loss;
}

void CheckCase(Case& c, double tolerance) {
  const Reference expected(c.hidden_values, c.weight_values, c.bias_values, c.targets, 0.25);
  const auto tokens = static_cast<int64_t>(c.targets.size());
  Tensor predictions = c.ctx.Empty({tokens}, DType::kInt32);
  const LossSums sums = c.loss.Forward(c.hidden, c.ctx.Upload(c.targets), predictions, c.ctx);
  CHECK(sums.loss == Approx(expected.loss).epsilon(tolerance));
  CHECK(sums.nll == sums.loss);
  CHECK(sums.tokens == tokens);
  if (tolerance < 1e-4) CHECK(ElementsOf<int32_t>(predictions) == expected.predictions);
  CHECK_THROWS(c.loss.Backward());

  const LossTensors totals = ScaledLoss(0.25f, c.ctx);
  c.ctx.set_loss(totals);
  c.ctx.set_training(true);
  Tensor none;
  CHECK(c.loss.Forward(c.hidden, c.ctx.Upload(c.targets), none, c.ctx).loss == 0.0);
  CHECK(ElementsOf<double>(totals.loss_sum).front() == sums.loss);
  CHECK(ElementsOf<double>(totals.nll_sum).front() == sums.nll);
  CHECK(ErrorOf(c.loss.Backward(), expected.d_hidden) < tolerance);
  CHECK(ErrorOf(c.weight.gradient(), expected.d_weight) < tolerance);
  CHECK_THROWS(c.loss.Backward());
}

TEST_CASE("loss, predictions and gradients are those of the whole product") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool with_bias : {false, true}) {
      INFO(Name(dtype) << ", bias " << with_bias);
      const double tolerance = ToleranceOf(dtype);
      Case c(13, 37, 24, dtype, with_bias);
      CheckCase(c, tolerance);
      const Reference expected(c.hidden_values, c.weight_values, c.bias_values, c.targets, 0.25);
      if (with_bias) {
        CHECK(ErrorOf(c.bias.gradient(), expected.d_bias) < tolerance);
        // Gradients accumulate.
        Tensor none;
        c.loss.Forward(c.hidden, c.ctx.Upload(c.targets), none, c.ctx);
        Values twice = expected.d_bias;
        for (double& value : twice) value *= 2.0;
        CHECK(ErrorOf(c.bias.gradient(), twice) < tolerance);
      } else {
        CHECK(ErrorOf(c.bias.gradient(), Values(37)) == 0.0);
      }
    }
  }
}

TEST_CASE("slices of rows add up to the whole") {
  if (TestDevice().type != DeviceType::kCpu) return;  // there a slice is hundreds of MiB
  const int64_t classes = 20000;
  const int64_t rows = 2 * OutputLoss::SliceRows(classes, DeviceType::kCpu) + 5;
  Case c(rows, classes, 3, DType::kFloat32, /*with_bias=*/true);
  CheckCase(c, 2e-5);
  const Reference expected(c.hidden_values, c.weight_values, c.bias_values, c.targets, 0.25);
  CHECK(ErrorOf(c.bias.gradient(), expected.d_bias) < 2e-5);
}

TEST_CASE("logits for decoding have the bias too") {
  Case c(5, 37, 24, DType::kFloat32, /*with_bias=*/true);
  const std::vector<float> logits = ElementsOf<float>(c.loss.Logits(c.hidden, c.ctx));
  for (size_t row = 0; row < 5; ++row) {
    for (size_t k = 0; k < 37; ++k) {
      double expected = c.bias_values[k];
      for (size_t i = 0; i < 24; ++i) {
        expected += c.hidden_values[row * 24 + i] * c.weight_values[k * 24 + i];
      }
      CHECK(double{logits[row * 37 + k]} == Approx(expected).margin(1e-5));
    }
  }
}

}  // namespace
}  // namespace dtrain
