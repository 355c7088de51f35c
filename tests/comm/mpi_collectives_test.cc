// mpi_collectives_test.cc - named collectives under mpirun.
// SPDX-License-Identifier: Apache-2.0

#include "comm/collectives_suite.h"
#include "testing/catch.h"
#include "testing/mpi_world.h"

namespace dtrain {
namespace {

void CheckAll(const std::vector<testing::CommunicatorCase>& cases) {
  for (const auto& test_case : cases) {
    INFO(test_case.name);
    CHECK(test_case.run(testing::MpiWorld()) == "");
  }
}

TEST_CASE("named reductions over MPI") { CheckAll(testing::ReductionCases()); }

TEST_CASE("values of named reductions over MPI") { CheckAll(testing::ValueCases()); }

TEST_CASE("named movements over MPI") { CheckAll(testing::MovementCases()); }

TEST_CASE("10,000 tensors in random orders, sizes and delays have exact sums over MPI") {
  CHECK(testing::FuzzTheQueue(testing::MpiWorld(), 10000, /*seed=*/9, testing::OptionsOfFuzz()) ==
        "");
}

}  // namespace
}  // namespace dtrain
