// span_loss_test.cc - losses and gradients of places in sequences of unlike lengths.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/span_loss.h"

#include <limits>

#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sequences of 1, 31, 32, 33, 7 and 1023 tokens, their offsets where the device reads them.
Sequences UnlikeSequences() {
  Sequences sequences({0, 1, 32, 64, 97, 104, 1127});
  Tensor offsets = Empty(TestArena(), {sequences.count() + 1}, DType::kInt32);
  for (int64_t i = 0; i <= sequences.count(); ++i) {
    SetAt(offsets, i, sequences.offsets()[static_cast<size_t>(i)]);
  }
  sequences.set_device_offsets(offsets);
  return sequences;
}

// Of each side and sequence some place, every fifth unknown.
Tensor TargetsOf(int64_t sides, const Sequences& sequences) {
  Tensor targets = Empty(TestArena(), {sides, sequences.count()}, DType::kInt32);
  for (int64_t i = 0; i < targets.elements(); ++i) {
    const int32_t length = sequences.length(i % sequences.count());
    SetAt(targets, i, i % 5 == 4 ? -1.0 : static_cast<double>((i * 37) % length));
  }
  return targets;
}

double ReferenceLoss(const Values& z, int64_t target) {
  if (target < 0) return 0.0;
  const double max = *std::max_element(z.begin(), z.end());
  double sum = 0.0;
  for (const double score : z) sum += std::exp(score - max);
  return max + std::log(sum) - z[static_cast<size_t>(target)];
}

struct Result {
  SpanLossOutputs outputs;

  Result(int64_t sides, const Sequences& sequences)
      : outputs{.loss = Filled({sides, sequences.count()}, kF32, 9),
                .d_logits = Filled({sides, sequences.tokens()}, kF32, 9)} {}
};

TEST_CASE("span losses match the reference and finite differences") {
  const int64_t sides = GENERATE(1, 2, 3);
  constexpr double kScale = 0.25;
  CAPTURE(sides);
  Stream stream(TestDevice());
  const Sequences sequences = UnlikeSequences();
  const Tensor logits = Random({sides, sequences.tokens()}, kF32, 1, -8.0, 8.0);
  const Tensor targets = TargetsOf(sides, sequences);
  Result result(sides, sequences);
  SpanLoss(logits, targets, sequences, Filled({1}, kF32, kScale), result.outputs, stream);
  Values loss;
  Values gradient;
  const auto share = 1.0 / static_cast<double>(sides);
  for (int64_t side = 0; side < sides; ++side) {
    for (int64_t s = 0; s < sequences.count(); ++s) {
      Values z;
      for (int32_t t = sequences.begin(s); t < sequences.end(s); ++t) {
        z.push_back(ValueAt(logits, side * sequences.tokens() + t));
      }
      const auto target = static_cast<int64_t>(ValueAt(targets, side * sequences.count() + s));
      loss.push_back(share * ReferenceLoss(z, target));
      const Values d = NumericGradient(
          [&](const Values& at) { return kScale * share * ReferenceLoss(at, target); }, z);
      gradient.insert(gradient.end(), d.begin(), d.end());
    }
  }
  CHECK(Difference(result.outputs.loss, loss) < 1e-6);
  CHECK(Difference(result.outputs.d_logits, gradient) < 1e-6);
}

TEST_CASE("the gradient of a span loss may take the scores' place, or not be there") {
  Stream stream(TestDevice());
  const Sequences sequences = UnlikeSequences();
  const Tensor logits = Random({2, sequences.tokens()}, kF32, 1);
  const Tensor targets = TargetsOf(2, sequences);
  const Tensor scale = Filled({1}, kF32, 3.0);
  Result expected(2, sequences);
  SpanLoss(logits, targets, sequences, scale, expected.outputs, stream);
  Result in_place(2, sequences);
  in_place.outputs.d_logits = Copy(logits);
  SpanLoss(in_place.outputs.d_logits, targets, sequences, scale, in_place.outputs, stream);
  CHECK(SameBits(in_place.outputs.loss, expected.outputs.loss));
  CHECK(SameBits(in_place.outputs.d_logits, expected.outputs.d_logits));
  Result without(2, sequences);
  without.outputs.d_logits = Tensor();
  SpanLoss(logits, targets, sequences, scale, without.outputs, stream);
  CHECK(SameBits(without.outputs.loss, expected.outputs.loss));
}

TEST_CASE("span losses stand large and infinite scores") {
  Stream stream(TestDevice());
  Sequences sequences({0, 3});
  Tensor offsets = FromValues({2}, DType::kInt32, {0.0, 3.0});
  sequences.set_device_offsets(offsets);
  const auto loss = [&](const Values& z) {
    Result result(1, sequences);
    SpanLoss(FromValues({1, 3}, kF32, z), FromValues({1, 1}, DType::kInt32, {1.0}), sequences,
             Filled({1}, kF32, 1.0), result.outputs, stream);
    return ValueAt(result.outputs.loss, 0);
  };
  CHECK(loss({-kInfinity, 3e38, 0.0}) == 0.0);
  CHECK(loss({1e30, 0.0, 0.0}) == Approx(1e30));
  CHECK(std::isnan(loss({std::numeric_limits<double>::quiet_NaN(), 0.0, 0.0})));
}

TEST_CASE("span losses do not depend on the number of threads") {
  const Sequences sequences = UnlikeSequences();
  const Tensor logits = Random({2, sequences.tokens()}, kF32, 1);
  const Tensor targets = TargetsOf(2, sequences);
  const auto run = [&] {
    Stream stream(TestDevice());
    Result result(2, sequences);
    SpanLoss(logits, targets, sequences, Filled({1}, kF32, 1.0), result.outputs, stream);
    return result;
  };
  const Result one = run();
  WithThreads(3, [&] {
    const Result three = run();
    CHECK(SameBits(three.outputs.loss, one.outputs.loss));
    CHECK(SameBits(three.outputs.d_logits, one.outputs.d_logits));
  });
}

TEST_CASE("span losses refuse what does not fit") {
  Stream stream(TestDevice());
  const Tensor scale = Filled({1}, kF32, 1.0);
  Sequences sequences({0, 2, 5});
  sequences.set_device_offsets(FromValues({3}, DType::kInt32, {0.0, 2.0, 5.0}));
  const auto message = [&](const Tensor& logits, const Tensor& targets, const Sequences& of) {
    Result result(2, sequences);
    return MessageOf([&] { SpanLoss(logits, targets, of, scale, result.outputs, stream); });
  };
  const Tensor logits = Filled({2, 5}, kF32, 0.0);
  const Tensor targets = FromValues({2, 2}, DType::kInt32, {1.0, 2.0, 0.0, 0.0});
  CHECK_THAT(message(Filled({2, 4}, kF32, 0.0), targets, sequences), Catch::Contains("logits"));
  CHECK_THAT(message(logits, FromValues({1, 2}, DType::kInt32, {1.0, 2.0}), sequences),
             Catch::Contains("targets"));
  CHECK_THAT(message(logits, targets, Sequences({0, 5, 5})),
             Catch::Contains("sequence 1 is empty"));
  if (TestDevice().type != DeviceType::kCpu) return;
  CHECK_THAT(message(logits, FromValues({2, 2}, DType::kInt32, {1.0, 2.0, 2.0, 0.0}), sequences),
             Catch::Contains("targets[2], a position in sequence 0"));
}

}  // namespace
}  // namespace dtrain
