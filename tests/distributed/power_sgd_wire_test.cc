// power_sgd_wire_test.cc - factors in 16 bits: rounding is remembered, infinity leaves no trace.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/distributed/gradient_reducer.h"
#include "dtrain/distributed/internal/power_sgd_memory.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

constexpr int64_t kRows = 40, kColumns = 56, kSecondRows = 70, kSecondColumns = 24;
constexpr int64_t kFirst = kRows * kColumns;
constexpr int64_t kAll = kFirst + kSecondRows * kSecondColumns;

const std::vector<GradientRange> kMatrices = {
    {"first", 0, kFirst, kRows, kColumns}, {"second", kFirst, kAll, kSecondRows, kSecondColumns}};

GradientReducerOptions Options(DType wire_type) {
  return {.bucket_bytes = 4000,
          .first_bucket_bytes = 100,
          .wire_type = wire_type,
          .power_sgd = {.rank = 2, .seed = 5}};
}

std::vector<float> Noise(uint64_t seed) {
  RandomStream random({.seed = seed});
  std::vector<float> values(kAll);
  for (float& value : values) value = random.NextUniform() - 0.5f;
  return values;
}

Tensor View(std::vector<float>& flat) {
  return Tensor::View(flat.data(), {static_cast<int64_t>(flat.size())});
}

void Step(GradientReducer& reducer) {
  for (const int matrix : {0, 1}) {
    reducer.MarkReady(matrix);
    reducer.Poll();
  }
  reducer.Finish();
}

// Sums with ranks whose gradients are zero are exact, so that only factors are rounded.
double LostOf(int ranks, DType wire) {
  const auto lost = testing::RunRanks(ranks, [wire](Communicator& comm) {
    std::vector<float> flat(kAll);
    std::vector<double> missing(kAll);
    GradientReducer reducer(View(flat), kMatrices, comm, Options(wire));
    for (int step = 0; step < 4; ++step) {
      std::ranges::fill(flat, 0.0f);
      if (comm.is_root()) std::ranges::copy(Noise(static_cast<uint64_t>(step)), flat.begin());
      for (size_t i = 0; i < missing.size(); ++i) missing[i] += double{flat[i]};
      Step(reducer);
      for (size_t i = 0; i < missing.size(); ++i) missing[i] -= double{flat[i]};
    }
    const internal::PowerSgdMemory& memory = *internal::PowerSgdMemoryOf(reducer);
    for (const internal::CompressedMatrix& matrix : memory.matrices) {
      for (int64_t i = 0; i < matrix.size.elements(); ++i) {
        missing[static_cast<size_t>(matrix.begin + i)] -=
            double{memory.errors[static_cast<size_t>(matrix.error_begin + i)]};
      }
    }
    double worst = 0.0;
    for (const double m : missing) worst = std::max(worst, std::abs(m));
    return worst;
  });
  return lost[0];
}

TEST_CASE("what rounding takes from factors is in the errors of the rank that rounded") {
  for (const DType wire : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int ranks : {2, 4}) {
      INFO(Name(wire) << ", " << ranks << " ranks");
      CHECK(LostOf(ranks, wire) < 1e-5);
    }
  }
}

struct Broken {
  bool all_nan = false;     // the gradients after the step that was broken
  bool as_before = false;   // the errors after it
  std::vector<float> next;  // the sums of a good step after it
};

// In the second step rank 1 has, instead of the first matrix, `scale` in one column: the factor on
// the left spreads that over the rows, the one on the right has all of it in one element.
std::vector<Broken> WithColumn(float scale) {
  return testing::RunRanks(2, [scale](Communicator& comm) {
    std::vector<float> flat = Noise(static_cast<uint64_t>(comm.rank()));
    GradientReducer reducer(View(flat), kMatrices, comm, Options(DType::kFloat16));
    Step(reducer);
    const internal::PowerSgdMemory& memory = *internal::PowerSgdMemoryOf(reducer);
    const std::vector<float> errors = memory.errors;
    std::ranges::copy(Noise(10 + static_cast<uint64_t>(comm.rank())), flat.begin());
    if (comm.rank() == 1) {
      std::fill_n(flat.begin(), kFirst, 0.0f);
      for (size_t row = 0; row < kRows; ++row) flat[row * kColumns] = scale;
    }
    Step(reducer);
    Broken broken;
    broken.all_nan = std::ranges::all_of(flat, [](float value) { return std::isnan(value); });
    broken.as_before = memory.errors == errors;
    std::ranges::copy(Noise(20 + static_cast<uint64_t>(comm.rank())), flat.begin());
    Step(reducer);
    broken.next = flat;
    return broken;
  });
}

TEST_CASE("a factor on the right that is infinite in fp16 makes the step NaN and leaves no trace") {
  for (const Broken& rank : WithColumn(1000.0f)) CHECK_FALSE(rank.all_nan);
  const auto ranks = WithColumn(40000.0f);  // sqrt(40) times that passes 65,504
  for (const Broken& rank : ranks) {
    CHECK(rank.all_nan);
    CHECK(rank.as_before);
    const bool is_finite = std::ranges::all_of(rank.next, [](float v) { return std::isfinite(v); });
    CHECK(is_finite);
    const bool is_same = rank.next == ranks[0].next;
    CHECK(is_same);
  }
}

}  // namespace
}  // namespace dtrain
