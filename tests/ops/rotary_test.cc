// rotary_test.cc - rotary position embeddings of queries and keys.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/rotary.h"

#include "testing/catch.h"
#include "testing/op_cases.h"
#include "testing/reference/rotary.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

constexpr DType kF32 = DType::kFloat32;

struct Size {
  int64_t tokens, heads, head_dim;
};
// Halves of 1 and more columns: odd ones, whole vectors and pieces of eight, and remainders.
const Size kSizes[] = {{1, 1, 2},  {3, 5, 6},   {7, 2, 10}, {20, 3, 62},
                       {5, 4, 16}, {33, 2, 64}, {9, 1, 66}, {4, 3, 128}};

Tensor Table(int64_t max_length, int64_t head_dim, float theta) {
  Stream stream(TestDevice());
  Tensor table = Filled({max_length, head_dim}, kF32, 0);
  FillRotaryTable(theta, table, stream);
  return table;
}

// Positions below 30 in no order: far enough apart, and near enough for angles in float32 to be
// good to 1e-5.
std::vector<int32_t> PositionsFor(int64_t tokens) {
  std::vector<int32_t> positions(static_cast<size_t>(tokens));
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i * 17 % 30);
  return positions;
}

TEST_CASE("rotary embeddings match the reference in both directions") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const float theta = GENERATE(10000.0f, 160000.0f);
  const Margins margins = GENERATE(Margins::kOdd, Margins::kAligned);
  Stream stream(TestDevice());
  for (const auto& [tokens, heads, head_dim] : kSizes) {
    CAPTURE(Name(dtype), theta, static_cast<int>(margins), tokens, heads, head_dim);
    const std::vector<int32_t> positions = PositionsFor(tokens);
    const Tensor position_ids = OnDevice(positions, {tokens});
    const Tensor table = Table(30, head_dim, theta);
    Tensor x = Strided(Random({tokens, heads * head_dim}, dtype, 1), margins);
    const auto width = static_cast<size_t>(head_dim);
    const Values expected =
        reference::Rotary(ValuesOf(x), positions, width, static_cast<double>(theta), 1.0);
    RotaryForward(table, position_ids, x, stream);
    CHECK(Difference(x, expected) < ToleranceOf(dtype));
    CHECK(MarginsUntouched(x));

    Tensor dx = Strided(Random({tokens, heads * head_dim}, dtype, 2), margins);
    const Values back =
        reference::Rotary(ValuesOf(dx), positions, width, static_cast<double>(theta), -1.0);
    RotaryBackward(table, position_ids, dx, stream);
    CHECK(Difference(dx, back) < ToleranceOf(dtype));
    CHECK(MarginsUntouched(dx));
  }
}

TEST_CASE("queries and keys of a fused projection turn, and its values do not") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  constexpr int64_t kHidden = 32;
  Stream stream(TestDevice());
  const std::vector<int32_t> positions = {0, 1, 2, 0, 1};
  const Tensor position_ids = OnDevice(positions, {5});
  Tensor fused = Random({5, 3 * kHidden}, dtype, 1);
  const Tensor before = Copy(fused);
  Tensor turned = fused.Columns(0, 2 * kHidden);
  const Values expected = reference::Rotary(ValuesOf(turned), positions, 16, 10000.0, 1.0);
  RotaryForward(Table(3, 16, 10000.0f), position_ids, turned, stream);
  CHECK(Difference(turned, expected) < ToleranceOf(dtype));
  CHECK(ValuesOf(fused.Columns(2 * kHidden, 3 * kHidden)) ==
        ValuesOf(before.Columns(2 * kHidden, 3 * kHidden)));
  // Position 0 turns by nothing.
  CHECK(ValuesOf(fused.Rows(0, 1)) == ValuesOf(before.Rows(0, 1)));
  CHECK(ValuesOf(fused.Rows(3, 4)) == ValuesOf(before.Rows(3, 4)));
}

TEST_CASE("the product of a query and a key depends on their distance only") {
  constexpr int64_t kHeadDim = 64;
  Stream stream(TestDevice());
  const Tensor table = Table(8192, kHeadDim, 160000.0f);
  const auto product = [&](int32_t query_at, int32_t key_at) {
    const Tensor position_ids = OnDevice<int32_t>({query_at, key_at}, {2});
    Tensor x = Random({2, kHeadDim}, kF32, 1);
    RotaryForward(table, position_ids, x, stream);
    return Dot(ValuesOf(x.Rows(0, 1)), ValuesOf(x.Rows(1, 2)));
  };
  const double near = product(5, 2);
  // Angles of thousands are good to 5e-4 in float32.
  CHECK(product(8003, 8000) == Approx(near).margin(2e-2));
  CHECK(product(103, 100) == Approx(near).margin(5e-4));
  CHECK(std::abs(product(2, 5) - near) > 0.1);
  CHECK(std::abs(product(6, 2) - near) > 0.1);
}

TEST_CASE("the table of angles is exact for angles in float32") {
  constexpr int64_t kHeadDim = 64;
  constexpr int64_t kLength = 8192;
  const float theta = GENERATE(10000.0f, 160000.0f);
  const Values values = ValuesOf(Table(kLength, kHeadDim, theta));
  double worst = 0.0;
  for (int64_t p = 0; p < kLength; ++p) {
    for (int64_t k = 0; k < kHeadDim / 2; ++k) {
      const double angle = static_cast<double>(p) *
                           std::pow(static_cast<double>(theta),
                                    -2.0 * static_cast<double>(k) / static_cast<double>(kHeadDim));
      // Four roundings: the power, the frequency, the angle and the value.
      const double allowed = 2.4e-7 * angle + 6e-8;
      const auto at = static_cast<size_t>(p * kHeadDim + k);
      worst = std::max(worst, std::abs(values[at] - std::cos(angle)) / allowed);
      worst = std::max(worst, std::abs(values[at + kHeadDim / 2] - std::sin(angle)) / allowed);
    }
  }
  CHECK(worst <= 1.0);
  // The first pair's frequency is 1, so that its angles are whole numbers.
  CHECK(values[8191 * kHeadDim] == static_cast<double>(static_cast<float>(std::cos(8191.0))));
}

TEST_CASE("backward undoes forward") {
  Stream stream(TestDevice());
  const Tensor position_ids = OnDevice<int32_t>({40, 8191, 3}, {3});
  const Tensor table = Table(8192, 24, 10000.0f);
  Tensor x = Random({3, 72}, kF32, 1);
  const Values before = ValuesOf(x);
  RotaryForward(table, position_ids, x, stream);
  CHECK(Difference(x, before) > 0.1);
  RotaryBackward(table, position_ids, x, stream);
  CHECK(Difference(x, before) < 1e-6);
}

TEST_CASE("rotary embeddings give the same bits on one and on two threads") {
  const auto run = [&] {
    Stream stream(TestDevice());
    std::vector<int32_t> positions(1500);
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i % 100);
    Tensor x = Random({1500, 132}, kF32, 1);
    RotaryForward(Table(100, 66, 10000.0f), OnDevice(positions, {1500}), x, stream);
    return x;
  };
  Tensor one;
  Tensor two;
  WithThreads(1, [&] { one = run(); });
  WithThreads(2, [&] { two = run(); });
  CHECK(SameBits(one, two));
}

TEST_CASE("rotary embeddings of no tokens do nothing") {
  Stream stream(TestDevice());
  Tensor x = Filled({0, 16}, kF32, 0);
  RotaryForward(Table(4, 8, 10000.0f), OnDevice<int32_t>({}, {0}), x, stream);
  CHECK(x.elements() == 0);
}

TEST_CASE("rotary embeddings refuse what does not fit") {
  Stream stream(TestDevice());
  const auto message = [&](int64_t columns, int64_t head_dim, const std::vector<int32_t>& positions,
                           DType table_type = kF32) {
    Tensor x = Random({2, columns}, kF32, 1);
    const Tensor table = Filled({10, head_dim}, table_type, 0);
    return MessageOf([&] {
      RotaryForward(table, OnDevice(positions, {static_cast<int64_t>(positions.size())}), x,
                    stream);
    });
  };
  CHECK(message(16, 8, {0, 9}) == "");
  CHECK_THAT(message(16, 7, {0, 1}), Catch::Contains("a head has 7 columns, must be even"));
  CHECK_THAT(message(20, 8, {0, 1}), Catch::Contains("no whole heads of 8"));
  CHECK_THAT(message(16, 8, {0}), Catch::Contains("position_ids is [1], must be [2]"));
  CHECK_THAT(message(16, 8, {0, 1}, DType::kBFloat16),
             Catch::Contains("table is bfloat16, must be float32"));
  if (TestDevice().type == DeviceType::kCpu) {
    CHECK_THAT(message(16, 8, {0, 10}),
               Catch::Contains("position_ids[1] is 10, must be in [0, 10)"));
    CHECK_THAT(message(16, 8, {-1, 0}), Catch::Contains("position_ids[0] is -1"));
  }
}

}  // namespace
}  // namespace dtrain
