// nccl_phases_test.cc - the flat and the hierarchical path of collectives on GPUs, without a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/nccl_phases.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/issued_collectives.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

using Kind = NcclCall::Kind;

constexpr NcclHierarchy kSecondOfThree{.local_rank = 1, .local_size = 3, .small_bytes = 40};

NcclCall AllReduceOf(std::byte* data, int64_t count) {
  return {Kind::kAllReduce, data, count, DType::kFloat32};
}

TEST_CASE("a large allreduce scatters within the host, adds across hosts and gathers") {
  std::array<std::byte, 128> data{};
  NcclPhases phases;
  AddNcclPieces(AllReduceOf(data.data(), 32), &kSecondOfThree, phases);
  REQUIRE(phases[0].size() == 2);
  CHECK(phases[0][0].link == NcclLinkKind::kHost);
  CHECK(phases[0][0].call.kind == Kind::kReduceScatter);
  CHECK(phases[0][0].call.count == 10);
  // The two elements that three ranks cannot divide take the flat path.
  CHECK(phases[0][1].link == NcclLinkKind::kWorld);
  CHECK(phases[0][1].call.count == 2);
  CHECK(phases[0][1].call.data == data.data() + 30 * 4);
  REQUIRE(phases[1].size() == 1);
  CHECK(phases[1][0].link == NcclLinkKind::kCross);
  CHECK(phases[1][0].call.data == data.data() + 10 * 4);
  REQUIRE(phases[2].size() == 1);
  CHECK(phases[2][0].call.kind == Kind::kAllGather);
}

TEST_CASE("small allreduces, other collectives and flat ranks take one call among all") {
  std::array<std::byte, 128> data{};
  NcclPhases phases;
  AddNcclPieces(AllReduceOf(data.data(), 10), &kSecondOfThree, phases);
  AddNcclPieces(AllReduceOf(data.data(), 32), nullptr, phases);
  AddNcclPieces({Kind::kBroadcast, data.data(), 128, DType::kUint8}, &kSecondOfThree, phases);
  REQUIRE(phases[0].size() == 3);
  for (const NcclPiece& piece : phases[0]) CHECK(piece.link == NcclLinkKind::kWorld);
  CHECK(phases[1].empty());
  CHECK(phases[2].empty());
}

TEST_CASE("ranks that issued something else are named, with what both issued last") {
  const RankTopology topology(0, {"a", "b"});
  IssuedCollectives first;
  IssuedCollectives second;
  for (IssuedCollectives* issued : {&first, &second}) {
    issued->Add(std::vector<NcclCall>{AllReduceOf(nullptr, 5)});
  }
  CHECK(
      IssuedCollectives::FindDifference(std::array{first.Summarize(), second.Summarize()}, topology)
          .empty());
  first.Add(std::vector<NcclCall>{AllReduceOf(nullptr, 5)});
  second.Add(std::vector<NcclCall>{AllReduceOf(nullptr, 6)});
  CHECK(IssuedCollectives::FindDifference(std::array{first.Summarize(), second.Summarize()},
                                          topology) ==
        "rank 0 (host a) has issued 2 collectives, the last an AllReduce of 5 float32, but rank 1 "
        "(host b) 2, the last an AllReduce of 6 float32: all ranks must issue the same in the same "
        "order");
}

}  // namespace
}  // namespace dtrain::internal
