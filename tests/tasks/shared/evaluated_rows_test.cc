// evaluated_rows_test.cc - rows at equal distances, and batches that hold each of them once.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/shared/evaluated_rows.h"

#include <set>
#include <vector>

#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

TEST_CASE("at most so many rows are taken, spread over the whole set") {
  CHECK(EveryKthRow(10, 3) == std::vector<uint32_t>{0, 3, 6});
  CHECK(EveryKthRow(4, 0) == std::vector<uint32_t>{0, 1, 2, 3});
  CHECK(EveryKthRow(4, 9) == std::vector<uint32_t>{0, 1, 2, 3});
  CHECK(EveryKthRow(0, 3).empty());
  CHECK(EveryKthRow(1112, 300).back() == 1108);
}

TEST_CASE("the training sample has as many rows as an evaluation, up to 500") {
  CHECK(TrainingSample(100'000, 300).size() == 300);
  CHECK(TrainingSample(100'000, 3000).size() == 500);
  CHECK(TrainingSample(100, 3000).size() == 100);
}

TEST_CASE("the batches of all ranks hold each row once, at its place") {
  const std::vector<int32_t> lengths = {5, 9, 2, 7, 7, 3, 8, 1, 4, 6};
  const std::vector<uint32_t> rows = EveryKthRow(10, 5);
  const auto by_rank = testing::RunRanks(2, [&](Communicator& comm) {
    return BatchesOfRows(rows, {.source = lengths, .added = 0}, /*tokens_per_batch=*/10, comm);
  });
  std::multiset<uint32_t> places;
  for (const std::vector<RowBatch>& batches : by_rank) {
    for (const RowBatch& batch : batches) {
      REQUIRE(batch.places.size() == batch.rows.size());
      for (size_t i = 0; i < batch.rows.size(); ++i) {
        CHECK(batch.rows[i] == rows[batch.places[i]]);
        places.insert(batch.places[i]);
      }
    }
  }
  CHECK(places == std::multiset<uint32_t>{0, 1, 2, 3, 4});
}

}  // namespace
}  // namespace dtrain
