// fusion_plan_test.cc - which tensors share an exchange.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/fusion_plan.h"

#include <cstdint>
#include <vector>

#include "testing/catch.h"

namespace dtrain::internal {
namespace {

const CollectiveRequest kSum{.op = ReduceOp::kSum};
const CollectiveRequest kMax{.op = ReduceOp::kMax};

ReductionPart Part(int64_t count, const CollectiveRequest& request = kSum,
                   DType dtype = DType::kFloat32, bool by_nccl = false) {
  ReductionPart part;
  part.request = &request;
  part.dtype = dtype;
  part.count = count;
  part.by_nccl = by_nccl;
  return part;
}

TEST_CASE("tensors of one type and operation share an exchange up to its limit") {
  const auto plan = FuseReductions({Part(10), Part(10), Part(5), Part(5)}, /*fusion_bytes=*/100);
  REQUIRE(plan.size() == 2);
  CHECK(plan[0].bytes == 100);
  CHECK(plan[0].parts.size() == 3);
  CHECK(plan[1].bytes == 20);
}

TEST_CASE("another type, operation or path takes another exchange") {
  const auto plan = FuseReductions({Part(1), Part(1, kMax), Part(1, kSum, DType::kInt32),
                                    Part(1, kSum, DType::kFloat32, /*by_nccl=*/true), Part(1)},
                                   1 << 20);
  REQUIRE(plan.size() == 4);
  CHECK(plan[0].parts.size() == 2);
}

TEST_CASE("a tensor above the limit travels alone, and later small ones do not join it") {
  const auto plan = FuseReductions({Part(100), Part(1), Part(1)}, /*fusion_bytes=*/40);
  REQUIRE(plan.size() == 2);
  CHECK(plan[0].bytes == 400);
  CHECK(plan[1].parts.size() == 2);
}

TEST_CASE("a single tensor is reduced in place, unless this rank has joined and has none") {
  float value = 0;
  ReductionPart mine = Part(1);
  mine.from = mine.to = &value;
  CHECK(FuseReductions({mine}, 100)[0].IsInPlace());
  CHECK_FALSE(FuseReductions({mine, mine}, 100)[0].IsInPlace());
  CHECK_FALSE(FuseReductions({Part(1)}, 100)[0].IsInPlace());
}

}  // namespace
}  // namespace dtrain::internal
