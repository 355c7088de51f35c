// broadcast_test.cc - tensors become those of the root.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/train/broadcast.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "dtrain/train/replica_check.h"
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

TEST_CASE("32: a broadcast makes the weights and the optimizer those of the root") {
  const auto wrong = RunRanks(3, [](Communicator& comm) -> std::string {
    ParameterSet parameters;
    Scope(parameters, "m").Add("w", {3, 5}, Initializer::Normal(1.0f));
    // Another seed on each rank: other weights.
    parameters.Allocate({}, DType::kBFloat16, static_cast<uint64_t>(comm.rank()) + 1);
    Adam adam(parameters, {.ema_decay = 0.5f});
    adam.set_steps(100 + comm.rank());
    Stream stream{Device{}};
    for (int i = 0; i <= comm.rank(); ++i) adam.Step(0.1f, 1.0f, stream);
    BroadcastParameters(parameters, comm, /*root=*/1);
    BroadcastOptimizerState(adam, comm, /*root=*/1);
    if (adam.steps() != 103) return "the number of updates";
    const absl::Status status =
        CheckReplicas({parameters.weights(), parameters.compute_weights(), adam.first_moments(),
                       adam.second_moments(), adam.average()},
                      "after the broadcast", comm);
    return std::string(MessageOf(status));
  });
  CHECK(wrong == std::vector<std::string>(3, ""));
}

}  // namespace
}  // namespace dtrain
