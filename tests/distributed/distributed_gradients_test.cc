// distributed_gradients_test.cc - gradients of ranks as threads, and of ranks that fail.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/distributed_gradients.h"

#include <string>
#include <vector>

#include "distributed/gradients_suite.h"
#include "dtrain/device/stream.h"
#include "testing/catch.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanks;

Tensor View(std::vector<float>& values) {
  return Tensor::View(values.data(), {static_cast<int64_t>(values.size())});
}

TEST_CASE("gradients and replicas of ranks as threads") {
  for (const int size : {1, 2, 3, 4}) {
    for (const auto& test_case : testing::GradientCases()) {
      INFO(test_case.name << ", " << size << " ranks");
      for (const std::string& wrong : RunRanks(size, test_case.run)) CHECK(wrong == "");
    }
  }
}

TEST_CASE("gradients that are absent or views of columns are refused by name") {
  const auto statuses = RunRanks(1, [](Communicator& comm) {
    Collectives collectives(comm);
    std::vector<float> values(12, 1.0f);
    const Tensor columns = Tensor::View(values.data(), {3, 4}).Columns(0, 2);
    for (const DType wire : {DType::kFloat32, DType::kBFloat16}) {
      CHECK_THROWS_WITH(DistributedGradients({{"w", Tensor()}}, collectives, {.wire_type = wire}),
                        Catch::Contains("gradient \"w\" is absent"));
      CHECK_THROWS_WITH(DistributedGradients({{"w", columns}}, collectives, {.wire_type = wire}),
                        Catch::Contains("gradient \"w\" is a view of some columns"));
    }
    return OkStatus();
  });
  CHECK(statuses[0].ok());
}

TEST_CASE("gradients of a rank that fails are left alone, and the others are told") {
  const auto statuses = RunRanks(3, [](Communicator& comm) {
    Collectives collectives(comm);
    Status status;
    {
      std::vector<float> gradient(1000, 1.0f);
      DistributedGradients gradients({{"w", View(gradient)}}, collectives);
      gradients.Ready(0);
      if (comm.rank() != 1) status = gradients.Synchronize();
    }
    return status;
  });
  // Rank 1 may have left before or after the gradients were reduced.
  CHECK(statuses[1].ok());
  CHECK(statuses[0].code() == statuses[2].code());
  const auto stuck = RunRanks(3, [](Communicator& comm) {
    Collectives collectives(comm);
    std::vector<float> gradient(1000, 1.0f);
    DistributedGradients gradients({{"w", View(gradient)}}, collectives);
    if (comm.rank() == 1) {
      collectives.Abort("out of memory");
      return OkStatus();
    }
    gradients.Ready(0);
    return gradients.Synchronize();
  });
  for (const size_t r : {size_t{0}, size_t{2}}) {
    CHECK_THAT(std::string(stuck[r].message()),
               Catch::Contains("rank 1 (host a) has ended its collectives: out of memory"));
  }
}

}  // namespace
}  // namespace dtrain
