// sequence_mean_test.cc - means of packed sequences, and their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/sequence_mean.h"

#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

// Sequences of 1, 2, 9 and 40 rows.
const std::vector<int32_t> kOffsets = {0, 1, 3, 12, 52};

Sequences Batch() {
  Sequences sequences(kOffsets);
  sequences.set_device_offsets(OnDevice(kOffsets, {static_cast<int64_t>(kOffsets.size())}));
  return sequences;
}

TEST_CASE("the mean of each sequence and its gradient match sums by hand") {
  const DType dtype = GENERATE(from_range(FloatTypes()));
  const Margins margins = GENERATE(Margins::kOdd, Margins::kAligned);
  Stream stream(TestDevice());
  const Sequences sequences = Batch();
  for (const int64_t columns : {1, 7, 16, 40, 264}) {
    CAPTURE(Name(dtype), static_cast<int>(margins), columns);
    const auto width = static_cast<size_t>(columns);
    const Tensor x = Strided(Random({52, columns}, dtype, 1), margins);
    const Tensor dy = Strided(Random({4, columns}, dtype, 2), margins);
    const Values from = ValuesOf(x);
    const Values upper = ValuesOf(dy);
    Values means = ValuesOf(dy);
    Values gradients = from;
    for (size_t s = 0; s + 1 < kOffsets.size(); ++s) {
      const auto first = static_cast<size_t>(kOffsets[s]);
      const auto last = static_cast<size_t>(kOffsets[s + 1]);
      for (size_t c = 0; c < width; ++c) {
        double sum = 0.0;
        for (size_t t = first; t < last; ++t) {
          sum += from[t * width + c];
          gradients[t * width + c] = upper[s * width + c] / static_cast<double>(last - first);
        }
        means[s * width + c] = sum / static_cast<double>(last - first);
      }
    }
    Tensor y = Strided(Filled({4, columns}, dtype, 5), margins);
    SequenceMeanForward(x, sequences, y, stream);
    CHECK(Difference(y, means) < ToleranceOf(dtype));
    CHECK(MarginsUntouched(y));

    Tensor dx = Strided(Filled({52, columns}, dtype, 5), margins);
    SequenceMeanBackward(dy, sequences, dx, stream);
    CHECK(Difference(dx, gradients) < ToleranceOf(dtype));
    CHECK(MarginsUntouched(dx));
  }
}

TEST_CASE("a sequence without rows has no mean") {
  Stream stream(TestDevice());
  const Tensor x = Random({3, 4}, DType::kFloat32, 1);
  Tensor y = Filled({2, 4}, DType::kFloat32, 0);
  Sequences sequences({0, 3, 3});
  CHECK_THROWS_WITH(SequenceMeanForward(x, sequences, y, stream),
                    Catch::Contains("sequence 1 has no rows"));
}

TEST_CASE("a batch without sequences has no means") {
  Stream stream(TestDevice());
  const Tensor x = Filled({0, 4}, DType::kFloat32, 0);
  Tensor y = Filled({0, 4}, DType::kFloat32, 0);
  Sequences sequences({0});
  sequences.set_device_offsets(OnDevice(std::vector<int32_t>{0}, {1}));
  CHECK_NOTHROW(SequenceMeanForward(x, sequences, y, stream));
}

}  // namespace
}  // namespace dtrain
