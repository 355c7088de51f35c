// checksum_test.cc - the same number everywhere for the same bits, another one for others.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/checksum.h"

#include <bit>
#include <utility>
#include <vector>

#include "testing/catch.h"
#include "testing/op_cases.h"

namespace dtrain {
namespace {

using namespace dtrain::testing;  // NOLINT: the test's own vocabulary

uint64_t Expected(const std::vector<float>& values) {
  uint64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += std::bit_cast<uint32_t>(values[i]) * (2 * uint64_t{i} + 1);
  }
  return sum;
}

int64_t ChecksumOf(const Tensor& x, Stream& stream) {
  Tensor sum = OnDevice<int64_t>({0}, {1});
  Checksum(x, sum, stream);
  return ElementsOf<int64_t>(sum)[0];
}

TEST_CASE("a checksum is the sum of the bits, weighted by their places") {
  Stream stream(TestDevice());
  for (const int64_t n : {1, 31, 33, 1023, 1024, 70001}) {
    CAPTURE(n);
    const Tensor x = Random({n}, DType::kFloat32, 1);
    CHECK(ChecksumOf(x, stream) == static_cast<int64_t>(Expected(ElementsOf<float>(x))));
  }
}

TEST_CASE("any changed bit and elements that change places change the checksum") {
  Stream stream(TestDevice());
  Tensor x = Random({1023}, DType::kFloat32, 1);
  const std::vector<float> values = ElementsOf<float>(x);
  const int64_t before = ChecksumOf(x, stream);
  for (const size_t i : {size_t{0}, size_t{511}, size_t{1022}}) {
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<float> changed = values;
      changed[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(changed[i]) ^ (uint32_t{1} << bit));
      SetElements(changed, x);
      CHECK(ChecksumOf(x, stream) != before);
    }
  }
  std::vector<float> swapped = values;
  std::swap(swapped[3], swapped[700]);
  SetElements(swapped, x);
  CHECK(ChecksumOf(x, stream) != before);
}

TEST_CASE("a checksum of anything but contiguous float32 is refused") {
  Stream stream(TestDevice());
  Tensor sum = OnDevice<int64_t>({0}, {1});
  CHECK_THROWS_AS(Checksum(Random({8}, DType::kBFloat16, 1), sum, stream), CheckError);
  CHECK_THROWS_AS(Checksum(Strided(Random({3, 8}, DType::kFloat32, 1)), sum, stream), CheckError);
}

}  // namespace
}  // namespace dtrain
