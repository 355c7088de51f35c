// segment_offsets_test.cc - tokens before a segment are the plain sum of the lengths before it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/data/segment_offsets.h"

#include "dtrain/base/random.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("tokens before a segment are the sum of all lengths before it") {
  const size_t count = GENERATE(size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{1100});
  RandomStream random({.seed = count});
  std::vector<uint16_t> lengths;
  for (size_t i = 0; i < count; ++i) {
    lengths.push_back(static_cast<uint16_t>(1 + random.NextBelow(65535)));
  }
  const SegmentOffsets offsets(lengths);
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    CHECK(offsets.Before(i) == sum);
    sum += lengths[i];
  }
}

}  // namespace
}  // namespace dtrain
