// broadcast_test.cc - tensors become those of the root.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/broadcast.h"

#include <string>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"
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

TEST_CASE("the moments of a shard are no other rank's") {
  ParameterSet parameters;
  Scope(parameters, "layer").Add("weight", {64, 64}, Initializer::Constant(1.0f));
  parameters.Allocate({}, DType::kFloat32, /*seed=*/1);
  const int64_t half = parameters.size() / 2;
  for (const bool sharded : {false, true}) {
    Adam adam(parameters, {}, {{0, sharded ? half : parameters.size()}});
    SelfCommunicator comm;
    CHECK(adam.is_sharded() == sharded);
    if (sharded) CHECK_THROWS_AS(BroadcastOptimizerState(adam, comm), CheckError);
    if (!sharded) CHECK_NOTHROW(BroadcastOptimizerState(adam, comm));
  }
}

}  // namespace
}  // namespace dtrain
