// replica_check_test.cc - replicas that drift apart end the run, and are named.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/replica_check.h"

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

using testing::ElementsOf;
using testing::RunRanks;
using testing::SetElements;
using testing::TestDevice;

// The smallest change there is, of one weight.
void FlipLastBit(Tensor& weights, size_t at) {
  std::vector<float> values = ElementsOf<float>(weights);
  values.at(at) = std::nextafter(values.at(at), 1e9f);
  SetElements(values, weights);
}

TEST_CASE("equal tensors pass and a changed bit is found, with the rank") {
  const auto statuses = RunRanks(3, [](Communicator& comm) {
    std::vector<float> weights(1001, 0.5f);
    const Tensor view = Tensor::View(weights.data(), {1001});
    Status status = CheckReplicas({view}, "at the start", comm);
    if (!status.ok()) return status;
    if (comm.rank() == 2) weights[1000] = std::nextafter(0.5f, 1.0f);
    return CheckReplicas({view}, "after step 100", comm);
  });
  for (const Status& status : statuses) {
    CHECK(status.code() == ExitCode::kInternal);
    CHECK_THAT(std::string(status.message()),
               Catch::Contains("the replicas differ after step 100: rank 2 (host a)"));
  }
}

TEST_CASE("a changed weight is found with its rank, also rank 0, and its name") {
  for (const int wrong : {0, 2}) {
    const auto statuses = RunRanks(3, [&](Communicator& comm) {
      ParameterSet parameters;
      const Scope scope(parameters, "m");
      scope.Add("first", {3, 5}, Initializer::Normal(1.0f));
      Parameter& second = scope.Add("second", {7}, Initializer::Normal(1.0f));
      scope.Add("third", {9, 2}, Initializer::Normal(1.0f));
      parameters.Allocate(TestDevice(), DType::kBFloat16, 1);
      Stream stream(TestDevice());
      Status status = CheckReplicas(parameters, "at the start", comm, stream);
      if (!status.ok()) return status;
      if (comm.rank() == wrong) FlipLastBit(second.master(), 6);
      return CheckReplicas(parameters, "after update 7", comm, stream);
    });
    for (const Status& status : statuses) {
      CHECK_THAT(
          std::string(status.message()),
          Catch::Contains("the replicas differ after update 7: rank " + std::to_string(wrong) +
                          " (host a) no longer holds the values of rank " +
                          std::to_string(wrong == 0 ? 1 : 0) +
                          ", first seen in m.second; the steps since the last checkpoint"));
    }
  }
}

TEST_CASE("a run whose weights flip on one rank ends at the next check") {
  const ToyCorpus corpus;
  ToyRun run = MakeToyRun(corpus);
  run.ranks = 2;
  run.trainer.replica_check_every = 3;
  run.trainer.max_steps = 9;
  const std::vector<ToyResult> whole = TrainToy(run);
  for (const ToyResult& result : whole) CHECK(result.exit_code == ExitCode::kDone);
  // Both ranks call it, in any order: the first to come at step 4 flips.
  std::atomic<bool> has_flipped = false;
  run.before_update = [&](int64_t step, ParameterSet& parameters) {
    if (step == 4 && !has_flipped.exchange(true)) FlipLastBit(parameters.weights(), 100);
  };
  for (const ToyResult& result : TrainToy(run)) {
    CHECK(result.exit_code == ExitCode::kInternal);
    CHECK(result.state.step == 6);
    CHECK_THAT(result.message, Catch::Contains("the replicas differ after update 6: rank ") &&
                                   Catch::Contains(", first seen in "));
  }
}

TEST_CASE("replicas of a group are named as the job counts them") {
  const auto statuses = RunRanks(4, [](Communicator& comm) {
    const auto group = comm.Split(comm.rank() / 2);
    std::vector<float> weights(10, group->rank() == 1 ? 0.5f : 0.25f);
    return CheckReplicas({Tensor::View(weights.data(), {10})}, "at the start", *group);
  });
  CHECK_THAT(std::string(statuses[3].message()),
             Catch::Contains("rank 3 (host a) no longer holds the values of rank 2;"));
}

}  // namespace
}  // namespace dtrain
