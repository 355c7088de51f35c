// factor_layout_test.cc - which parts of a bucket PowerSGD sends as factors, and on which rank.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/factor_layout.h"

#include <cstdint>
#include <vector>

#include "testing/catch.h"

namespace dtrain::internal {
namespace {

constexpr int kRank = 2;

// A matrix with padding, a bias, and a matrix too thin for factors of rank 2.
const std::vector<GradientRange> kParameters = {
    {.name = "large", .begin = 0, .end = 2064, .rows = 32, .columns = 64},
    {.name = "bias", .begin = 2064, .end = 2080},
    {.name = "thin", .begin = 2080, .end = 2144, .rows = 2, .columns = 32}};

PowerSgdMemory MemoryOf(int places) {
  PowerSgdMemory memory;
  memory.rank = kRank;
  memory.grid.places = places;
  for (int place = 0; place < places; ++place) {
    memory.grid.place.push_back(place);
    memory.grid.worker.push_back(0);
  }
  return memory;
}

TEST_CASE("a matrix travels as factors; padding, biases and thin matrices travel as they are") {
  PowerSgdMemory memory = MemoryOf(1);
  const FactorLayout layout({{0, 2144}}, kParameters, /*place=*/0, &memory);
  REQUIRE(layout.pieces().size() == 1);
  const FactorPiece& piece = layout.pieces()[0];
  REQUIRE(memory.matrices.size() == 1);
  CHECK(memory.matrices[0].name == "large");
  CHECK(piece.left_elements == kRank * 32);
  CHECK(piece.right_elements == kRank * 64);
  CHECK(piece.rest_elements == 2144 - 32 * 64);
  CHECK(layout.TravellingElements(0) == kRank * (32 + 64) + 2144 - 32 * 64);
}

TEST_CASE("a bucket without compressed matrices is cut into pieces, one with them is not") {
  PowerSgdMemory memory = MemoryOf(1);
  const int64_t bias = 3 * kPieceElements;
  const std::vector<GradientRange> parameters = {
      kParameters[0], {.name = "large bias", .begin = 2064, .end = 2064 + bias}};
  const FactorLayout layout({{0, 2064}, {2064, 2064 + bias}}, parameters, 0, &memory);
  CHECK(layout.end_of(0) == 1);
  CHECK(layout.begin_of(1) == 1);
  CHECK(layout.end_of(1) == 4);
}

TEST_CASE("the places of a worker have each matrix once and cover the rest without overlap") {
  int64_t rest = 0;
  size_t matrices = 0;
  for (int place = 0; place < 2; ++place) {
    PowerSgdMemory memory = MemoryOf(2);
    const FactorLayout layout({{0, 2144}}, kParameters, place, &memory);
    const FactorPiece& piece = layout.pieces()[0];
    CHECK(piece.share_offsets.front() == 0);
    CHECK(piece.share_offsets.back() == 2144);
    rest += piece.rest_elements;
    matrices += piece.last_matrix - piece.first_matrix;
  }
  CHECK(matrices == 1);
  CHECK(rest == 2144 - 32 * 64);
}

}  // namespace
}  // namespace dtrain::internal
