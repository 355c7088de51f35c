// broadcast_test.cc - tensors become those of the root.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/parallel/broadcast.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanks;

TEST_CASE("a broadcast makes all tensors those of the root") {
  const auto equal = RunRanks(3, [](Communicator& comm) {
    std::vector<float> weights(300001, static_cast<float>(comm.rank()));
    std::vector<int64_t> steps(2, comm.rank());
    BroadcastTensors({Tensor::View(weights.data(), {300001}), Tensor::View(steps.data(), {2})},
                     comm, /*root=*/1);
    return weights == std::vector<float>(300001, 1.0f) && steps == std::vector<int64_t>(2, 1);
  });
  CHECK(equal == std::vector<bool>(3, true));
}

}  // namespace
}  // namespace dtrain
