// cross_entropy_test.cc - the loss, its gradient, log-softmax and argmax.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/cross_entropy.h"

#include <limits>

#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/reference/cross_entropy.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// More classes than the 1024 that are summed at a time, too.
const Shape kShapes[] = {{1, 1}, {3, 31}, {20, 33}, {5, 127}, {2, 129}, {2, 1023}, {1, 1300}};

// Random targets, every fourth negative.
Tensor Targets(const Shape& shape) {
  Tensor targets = RandomIds(shape[0], static_cast<uint32_t>(shape[1]), 8);
  for (int64_t r = 3; r < shape[0]; r += 4) SetAt(targets, r, -1 - static_cast<double>(r));
  return targets;
}

Tensor StridedAs(bool aligned, const Tensor& x) { return aligned ? StridedAligned(x) : Strided(x); }

Values RowOf(const Values& x, int64_t r, int64_t columns) {
  return Values(x.begin() + r * columns, x.begin() + (r + 1) * columns);
}

TEST_CASE("cross-entropy matches the reference and finite differences") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const float smoothing = GENERATE(0.0f, 0.1f);
  const bool aligned = GENERATE(false, true);
  const CrossEntropyOptions options = {.label_smoothing = smoothing};
  Stream stream(TestDevice());
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(dtype), smoothing, aligned, shape);
    const Tensor logits = StridedAs(aligned, Random(shape, dtype, 1, -8.0, 8.0));
    const Tensor targets = Targets(shape);
    Tensor loss = Filled({shape[0]}, kF32, 9);
    Tensor nll = Filled({shape[0]}, kF32, 9);
    Tensor log_sum_exp = Filled({shape[0]}, kF32, 9);
    CrossEntropyForward(logits, targets, options, loss, nll, log_sum_exp, stream);
    const double scale = 0.25;
    Tensor in_place = logits;
    Tensor d_logits = StridedAs(aligned, Filled(shape, dtype, 9));
    const Tensor scale_tensor = Filled({1}, kF32, scale);
    CrossEntropyBackward(logits, targets, log_sum_exp, options, scale_tensor, d_logits, stream);
    const Values x = ValuesOf(logits);
    Values expected_loss;
    Values expected_nll;
    Values expected_lse;
    Values expected_d;
    for (int64_t r = 0; r < shape[0]; ++r) {
      const Values row = RowOf(x, r, shape[1]);
      const int target = static_cast<int>(ValueAt(targets, r));
      const auto cost = [&](const Values& v) {
        return scale * reference::CrossEntropy(v, target, double{smoothing});
      };
      expected_loss.push_back(cost(row) / scale);
      expected_nll.push_back(reference::CrossEntropy(row, target, 0.0));
      expected_lse.push_back(reference::LogSumExp(row));
      const Values d = NumericGradient(cost, row);
      expected_d.insert(expected_d.end(), d.begin(), d.end());
    }
    CHECK(Difference(loss, expected_loss) < 1e-6);
    CHECK(Difference(nll, expected_nll) < 1e-6);
    CHECK(Difference(log_sum_exp, expected_lse) < 1e-6);
    CHECK(Difference(d_logits, expected_d) < (dtype == kF32 ? 1e-6 : 1e-3));
    CrossEntropyBackward(in_place, targets, log_sum_exp, options, scale_tensor, in_place, stream);
    CHECK(ValuesOf(in_place) == ValuesOf(d_logits));
    CHECK(MarginsUntouched(in_place));
  }
}

// Where a thread has several packs of a row, several times over, and some columns are left.
TEST_CASE("cross-entropy matches the reference on a large vocabulary") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const bool aligned = GENERATE(false, true);
  CAPTURE(Name(dtype), aligned);
  constexpr int64_t kClasses = 20003;
  constexpr double kSmoothing = 0.1;
  const CrossEntropyOptions options = {.label_smoothing = 0.1f};
  Stream stream(TestDevice());
  Tensor logits = StridedAs(aligned, Random({2, kClasses}, dtype, 1, -8.0, 8.0));
  const int largest[] = {17000, 20001};
  for (int64_t r = 0; r < 2; ++r) SetAt(logits, r * logits.row_stride() + largest[r], 9.0);
  const Tensor targets = FromValues({2}, DType::kInt32, {19999, -1});
  const Values x = ValuesOf(logits);
  Tensor loss = Filled({2}, kF32, 9);
  Tensor nll = Filled({2}, kF32, 9);
  Tensor log_sum_exp = Filled({2}, kF32, 9);
  Tensor ids = Filled({2}, DType::kInt32, 9);
  Tensor log_p = Filled({2, kClasses}, kF32, 9);
  ArgMax(logits, ids, stream);
  LogSoftmax(logits, log_p, stream);
  CrossEntropyForward(logits, targets, options, loss, nll, log_sum_exp, stream);
  CrossEntropyBackward(logits, targets, log_sum_exp, options, Filled({1}, kF32, 1000.0), logits,
                       stream);
  CHECK(ValuesOf(ids) == Values{17000, 20001});
  CHECK(MarginsUntouched(logits));
  const Values row = RowOf(x, 0, kClasses);
  const double lse = reference::LogSumExp(row);
  CHECK(Difference(log_sum_exp, {lse, reference::LogSumExp(RowOf(x, 1, kClasses))}) < 1e-6);
  CHECK(Difference(loss, {reference::CrossEntropy(row, 19999, kSmoothing), 0.0}) < 1e-6);
  CHECK(Difference(nll, {lse - row[19999], 0.0}) < 1e-6);
  Values d(2 * kClasses);
  Values expected_log_p = x;
  for (size_t c = 0; c < row.size(); ++c) {
    const double q = (c == 19999 ? 1.0 - kSmoothing : 0.0) + kSmoothing / double{kClasses};
    d[c] = 1000.0 * (std::exp(row[c] - lse) - q);
    expected_log_p[c] -= lse;
    expected_log_p[c + kClasses] -= ValueAt(log_sum_exp, 1);
  }
  CHECK(Difference(logits, d) < ToleranceOf(dtype));
  CHECK(Difference(log_p, expected_log_p) < 1e-6);
}

TEST_CASE("cross-entropy stands large, infinite and broken logits") {
  Stream stream(TestDevice());
  const int64_t classes = GENERATE(40, 3000);
  const auto forward = [&](const Values& logits) {
    const Tensor x = FromValues({1, classes}, kF32, logits);
    const Tensor target = FromValues({1}, DType::kInt32, {1});
    Tensor loss = Filled({1}, kF32, 0);
    Tensor nll = Filled({1}, kF32, 0);
    Tensor log_sum_exp = Filled({1}, kF32, 0);
    CrossEntropyForward(x, target, {}, loss, nll, log_sum_exp, stream);
    return ValueAt(loss, 0);
  };
  Values logits(static_cast<size_t>(classes), -kInfinity);
  logits[1] = 5.0;
  CHECK(forward(logits) == Approx(0.0).margin(1e-7));
  logits.back() = 5.0;  // in the last chunk; the ones between are -infinity
  CHECK(forward(logits) == Approx(std::log(2.0)));
  logits.back() = 3e38;
  CHECK(forward(logits) == Approx(3e38));
  logits.assign(logits.size(), -1e30);
  logits[1] = -1e30;
  CHECK(forward(logits) == Approx(0.0).margin(1e24));
  logits.back() = std::nan("");
  CHECK(std::isnan(forward(logits)));
}

TEST_CASE("cross-entropy follows a maximum that rises or falls along the row") {
  const double slope = GENERATE(0.003, -0.003);
  Stream stream(TestDevice());
  Values ramp(5000);
  for (size_t c = 0; c < ramp.size(); ++c) ramp[c] = slope * static_cast<double>(c);
  const Tensor x = FromValues({1, 5000}, kF32, ramp);
  Tensor out = Filled({1, 5000}, kF32, 0);
  LogSoftmax(x, out, stream);
  CHECK(ValueAt(out, 0) == Approx(ramp[0] - reference::LogSumExp(ramp)).epsilon(1e-6));
}

TEST_CASE("a batch of no rows has no losses") {
  Stream stream(TestDevice());
  Tensor logits = Filled({0, 9}, kF32, 0);
  const Tensor targets = Filled({0}, DType::kInt32, 0);
  Tensor rows = Filled({0}, kF32, 0);
  CrossEntropyForward(logits, targets, {}, rows, rows, rows, stream);
  CrossEntropyBackward(logits, targets, rows, {}, Filled({1}, kF32, 1), logits, stream);
  Tensor ids = Filled({0}, DType::kInt32, 0);
  ArgMax(logits, ids, stream);
}

TEST_CASE("log-softmax matches the reference, also in place") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const bool aligned = GENERATE(false, true);
  Stream stream(TestDevice());
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(dtype), aligned, shape);
    Tensor logits = StridedAs(aligned, Random(shape, dtype, 1, -8.0, 8.0));
    Tensor out = StridedAs(aligned, Filled(shape, kF32, 0));
    LogSoftmax(logits, out, stream);
    Values expected = ValuesOf(logits);
    for (int64_t r = 0; r < shape[0]; ++r) {
      const double lse = reference::LogSumExp(RowOf(ValuesOf(logits), r, shape[1]));
      for (int64_t c = 0; c < shape[1]; ++c) expected[static_cast<size_t>(r * shape[1] + c)] -= lse;
    }
    CHECK(Difference(out, expected) < 1e-6);
    if (dtype == kF32) {
      LogSoftmax(logits, logits, stream);
      CHECK(ValuesOf(logits) == ValuesOf(out));
      CHECK(MarginsUntouched(logits));
    }
  }
}

TEST_CASE("argmax gives the first of the largest logits") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const bool aligned = GENERATE(false, true);
  Stream stream(TestDevice());
  for (const Shape& shape : kShapes) {
    CAPTURE(Name(dtype), aligned, shape);
    // Few distinct values, so that the largest comes more than once.
    Tensor logits = StridedAs(aligned, Filled(shape, dtype, 0));
    RandomStream random({.seed = 5});
    ForElements(logits,
                [&](int64_t at, int64_t) { SetAt(logits, at, random.NextBelow(40) - 60.0); });
    Tensor ids = Filled({shape[0]}, DType::kInt32, -7);
    ArgMax(logits, ids, stream);
    for (int64_t r = 0; r < shape[0]; ++r) {
      const Values row = RowOf(ValuesOf(logits), r, shape[1]);
      CHECK(ValueAt(ids, r) ==
            static_cast<double>(std::max_element(row.begin(), row.end()) - row.begin()));
    }
  }
  const double nan = std::nan("");
  Tensor odd = StridedAs(aligned, Filled({5, 50}, dtype, nan));
  const auto set = [&](int64_t r, int64_t c, double value) {
    SetAt(odd, r * odd.row_stride() + c, value);
  };
  set(1, 20, -3.0);
  set(2, 41, -kInfinity);
  set(2, 42, -kInfinity);
  set(3, 9, -0.0);  // no less than 0
  set(3, 30, 0.0);
  set(4, 30, -0.0);
  set(4, 9, 0.0);
  Tensor ids = Filled({5}, DType::kInt32, -7);
  ArgMax(odd, ids, stream);
  CHECK(ValuesOf(ids) == Values{0, 20, 41, 9, 9});
}

TEST_CASE("cross-entropy gives the same bits on one and on two threads") {
  const auto run = [] {
    Stream stream(TestDevice());
    const Shape shape = {100, 3001};
    const Tensor logits = Random(shape, kF32, 1);
    const Tensor targets = Targets(shape);
    std::vector<Tensor> out = {Filled({100}, kF32, 0), Filled({100}, kF32, 0),
                               Filled({100}, kF32, 0), Copy(logits)};
    CrossEntropyForward(logits, targets, {0.1f}, out[0], out[1], out[2], stream);
    CrossEntropyBackward(logits, targets, out[2], {0.1f}, Filled({1}, kF32, 1), out[3], stream);
    return out;
  };
  std::vector<Tensor> one;
  std::vector<Tensor> two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  for (size_t i = 0; i < one.size(); ++i) CHECK(SameBits(one[i], two[i]));
}

TEST_CASE("cross-entropy refuses what does not fit") {
  Stream stream(TestDevice());
  const Tensor logits = Random({2, 8}, kF32, 1);
  Tensor out = Filled({2}, kF32, 0);
  const auto message = [&](const Values& targets, float smoothing, Tensor loss) {
    return MessageOf([&] {
      CrossEntropyForward(logits, FromValues({2}, DType::kInt32, targets), {smoothing}, loss, out,
                          out, stream);
    });
  };
  CHECK(message({7, -1}, 0.0f, out) == "");
  if (TestDevice().type == DeviceType::kCpu) {
    CHECK_THAT(message({0, 8}, 0.0f, out), Catch::Contains("targets[1] is 8, there are 8 classes"));
  } else {  // nobody waits for the GPU to look; the loss shows it
    CHECK(message({0, 8}, 0.0f, out) == "");
    CHECK(std::isnan(ValueAt(out, 1)));
  }
  CHECK_THAT(message({0, 1}, 1.0f, out),
             Catch::Contains("label_smoothing is 1, must be in [0, 1)"));
  CHECK_THAT(message({0, 1}, 0.0f, Filled({3}, kF32, 0)),
             Catch::Contains("CrossEntropyForward: loss is [3], must be [2]"));
  Tensor ids = Filled({2}, kF32, 0);
  CHECK_THAT(MessageOf([&] { ArgMax(logits, ids, stream); }),
             Catch::Contains("ids is float32, must be int32"));
}

}  // namespace
}  // namespace dtrain
