// classification_loss_test.cc - losses, predictions and gradients of rows of a few outputs.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/classification_loss.h"

#include <limits>

#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/reference/classification_loss.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

using Kind = ClassificationLossKind;
constexpr DType kF32 = DType::kFloat32;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const Shape kShapes[] = {{1, 1}, {33, 2}, {5, 7}, {3, 31}, {2, 33}, {3, 64}, {1, 1023}};

// Classes, every fourth unknown; or targets in [0, 1), every seventh unknown.
Tensor Targets(Kind kind, const Shape& shape) {
  if (kind == Kind::kSoftmax) {
    Tensor targets = Filled({shape[0], 1}, kF32, 0);
    const Tensor ids = RandomIds(shape[0], static_cast<uint32_t>(shape[1]), 8);
    for (int64_t r = 0; r < shape[0]; ++r) {
      SetAt(targets, r, r % 4 != 3 ? ValueAt(ids, r) : r % 8 == 3 ? -1.0 : kNaN);
    }
    return targets;
  }
  Tensor targets = Random(shape, kF32, 8, 0.0, 1.0);
  for (int64_t i = 6; i < targets.elements(); i += 7) SetAt(targets, i, kNaN);
  return targets;
}

Values RowOf(const Values& x, int64_t r, int64_t columns) {
  return Values(x.begin() + r * columns, x.begin() + (r + 1) * columns);
}

struct Result {
  ClassificationLossOutputs outputs;

  explicit Result(const Shape& shape) {
    outputs = {.loss = Filled({shape[0]}, kF32, 9),
               .unweighted = Filled({shape[0]}, kF32, 9),
               .probabilities = Filled(shape, kF32, 9),
               .d_logits = Filled(shape, kF32, 9)};
  }
};

TEST_CASE("classification losses match the reference and finite differences") {
  const Kind kind = GENERATE(Kind::kSoftmax, Kind::kMeanSquared, Kind::kSigmoid);
  const bool weighted = GENERATE(false, true);
  constexpr double kScale = 0.25;
  Stream stream(TestDevice());
  for (const Shape& shape : kShapes) {
    CAPTURE(static_cast<int>(kind), weighted, shape);
    ClassificationLossInputs inputs{.logits = Random(shape, kF32, 1, -8.0, 8.0),
                                    .targets = Targets(kind, shape)};
    if (weighted) {
      inputs.weights = Random({shape[0]}, kF32, 2, 0.0, 2.0);
      inputs.output_weights = Random({shape[1]}, kF32, 3, 0.5, 2.0);
    }
    Result result(shape);
    ClassificationLoss(kind, inputs, Filled({1}, kF32, kScale), result.outputs, stream);
    const auto outputs = static_cast<size_t>(shape[1]);
    const Values ones(outputs, 1.0);
    const Values v = weighted ? ValuesOf(inputs.output_weights) : ones;
    const Values logits = ValuesOf(inputs.logits);
    const Values targets = ValuesOf(inputs.targets);
    Values loss;
    Values unweighted;
    Values probabilities;
    Values gradient;
    for (int64_t r = 0; r < shape[0]; ++r) {
      const Values z = RowOf(logits, r, shape[1]);
      const Values y = RowOf(targets, r, inputs.targets.dim(1));
      const double w = weighted ? ValueAt(inputs.weights, r) : 1.0;
      loss.push_back(w * reference::ClassificationLoss(kind, z, y, v));
      unweighted.push_back(reference::ClassificationLoss(kind, z, y, ones));
      const Values p = reference::Probabilities(kind, z);
      probabilities.insert(probabilities.end(), p.begin(), p.end());
      const Values d = NumericGradient(
          [&](const Values& at) {
            return kScale * w * reference::ClassificationLoss(kind, at, y, v);
          },
          z);
      gradient.insert(gradient.end(), d.begin(), d.end());
    }
    CHECK(Difference(result.outputs.loss, loss) < 1e-6);
    CHECK(Difference(result.outputs.unweighted, unweighted) < 1e-6);
    CHECK(Difference(result.outputs.probabilities, probabilities) < 1e-6);
    CHECK(Difference(result.outputs.d_logits, gradient) < 1e-6);
  }
}

TEST_CASE("a prediction or gradient may take the logits' place, or not be there") {
  const Kind kind = GENERATE(Kind::kSoftmax, Kind::kMeanSquared, Kind::kSigmoid);
  const Shape shape = {9, 37};
  Stream stream(TestDevice());
  ClassificationLossInputs inputs{.logits = Random(shape, kF32, 1),
                                  .targets = Targets(kind, shape)};
  const Tensor scale = Filled({1}, kF32, 3.0);
  Result expected(shape);
  ClassificationLoss(kind, inputs, scale, expected.outputs, stream);
  for (const bool gradient : {false, true}) {
    ClassificationLossInputs copy = inputs;
    copy.logits = Copy(inputs.logits);
    Result in_place(shape);
    in_place.outputs.probabilities = gradient ? Tensor() : copy.logits;
    in_place.outputs.d_logits = gradient ? copy.logits : Tensor();
    ClassificationLoss(kind, copy, scale, in_place.outputs, stream);
    CHECK(SameBits(in_place.outputs.loss, expected.outputs.loss));
    const Tensor& other = gradient ? expected.outputs.d_logits : expected.outputs.probabilities;
    CHECK(Difference(copy.logits, ValuesOf(other)) < 1e-6);
  }
}

// The loss and the first gradient of one row.
std::pair<double, double> OneRow(Kind kind, const Values& logits, const Values& targets) {
  Stream stream(TestDevice());
  const auto outputs = static_cast<int64_t>(logits.size());
  Result result({1, outputs});
  ClassificationLoss(
      kind,
      {.logits = FromValues({1, outputs}, kF32, logits),
       .targets = FromValues({1, static_cast<int64_t>(targets.size())}, kF32, targets)},
      Filled({1}, kF32, 1.0), result.outputs, stream);
  return {ValueAt(result.outputs.loss, 0), ValueAt(result.outputs.d_logits, 0)};
}

TEST_CASE("classification losses stand large, infinite and broken logits") {
  CHECK(OneRow(Kind::kSigmoid, {200.0}, {0.0}) == std::pair(200.0, 1.0));
  CHECK(OneRow(Kind::kSigmoid, {-200.0}, {0.0}).first == Approx(0.0).margin(1e-30));
  CHECK(OneRow(Kind::kSigmoid, {-200.0}, {1.0}) == std::pair(200.0, -1.0));
  CHECK(OneRow(Kind::kSigmoid, {-12.0}, {0.0}).first == Approx(std::log1p(std::exp(-12.0))));
  CHECK(OneRow(Kind::kSoftmax, {-kInfinity, 3e38}, {1.0}) == std::pair(0.0, 0.0));
  CHECK(OneRow(Kind::kSoftmax, {1e30, 0.0}, {1.0}).first == Approx(1e30));
  CHECK(std::isnan(OneRow(Kind::kSoftmax, {kNaN, 0.0}, {1.0}).first));
  CHECK(std::isnan(OneRow(Kind::kSigmoid, {kNaN}, {1.0}).first));
  CHECK(std::isnan(OneRow(Kind::kMeanSquared, {kNaN}, {1.0}).first));
}

TEST_CASE("classification losses do not depend on the number of threads") {
  const Kind kind = GENERATE(Kind::kSoftmax, Kind::kMeanSquared, Kind::kSigmoid);
  const Shape shape = {40, 3000};
  const ClassificationLossInputs inputs{.logits = Random(shape, kF32, 1),
                                        .targets = Targets(kind, shape)};
  const auto run = [&] {
    Stream stream(TestDevice());
    Result result(shape);
    ClassificationLoss(kind, inputs, Filled({1}, kF32, 1.0), result.outputs, stream);
    return result;
  };
  const Result one = run();
  WithThreads(3, [&] {
    const Result three = run();
    CHECK(SameBits(three.outputs.loss, one.outputs.loss));
    CHECK(SameBits(three.outputs.d_logits, one.outputs.d_logits));
  });
}

TEST_CASE("classification losses refuse what does not fit") {
  Stream stream(TestDevice());
  const Tensor scale = Filled({1}, kF32, 1.0);
  const auto message = [&](Kind kind, const ClassificationLossInputs& inputs, bool alias) {
    Result result({2, 3});
    if (alias) result.outputs.d_logits = result.outputs.probabilities;
    return MessageOf([&] { ClassificationLoss(kind, inputs, scale, result.outputs, stream); });
  };
  const Tensor logits = Filled({2, 3}, kF32, 0.0);
  const Tensor classes = Filled({2, 1}, kF32, 1.0);
  const auto says = [](const char* part) { return Catch::Contains(part); };
  CHECK_THAT(message(Kind::kSoftmax, {.logits = logits, .targets = logits}, false),
             says("targets"));
  CHECK_THAT(message(Kind::kSigmoid, {.logits = logits, .targets = classes}, false),
             says("targets"));
  CHECK_THAT(
      message(Kind::kSoftmax, {.logits = logits, .targets = classes, .weights = logits}, false),
      says("weights"));
  CHECK_THAT(message(Kind::kSoftmax, {.logits = logits, .targets = classes}, true),
             says("share memory"));
  if (TestDevice().type != DeviceType::kCpu) return;
  const Tensor beyond = FromValues({2, 1}, kF32, {2.0, 3.0});
  CHECK_THAT(message(Kind::kSoftmax, {.logits = logits, .targets = beyond}, false),
             says("targets[1] is 3, there are 3 classes"));
}

}  // namespace
}  // namespace dtrain
