// mpi_gradients_test.cc - gradients and replicas of ranks under mpirun.
// SPDX-License-Identifier: Apache-2.0

#include "distributed/gradients_suite.h"
#include "testing/catch.h"
#include "testing/mpi_world.h"

namespace dtrain {
namespace {

TEST_CASE("gradients and replicas over MPI") {
  for (const auto& test_case : testing::GradientCases()) {
    INFO(test_case.name);
    CHECK(test_case.run(testing::MpiWorld()) == "");
  }
}

}  // namespace
}  // namespace dtrain
