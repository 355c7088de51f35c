// mpi_communicator_test.cc - the suite under mpirun, and what the environment chose.
// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "comm/communicator_suite.h"
#include "dtrain/base/thread_pool.h"
#include "testing/mpi_world.h"

namespace dtrain {
namespace {

TEST_CASE("processes over MPI pass the suite") {
  for (const auto& test_case : testing::CommunicatorCases()) {
    INFO(test_case.name);
    CHECK(test_case.run(testing::MpiWorld()) == "");
  }
}

TEST_CASE("the world is the one mpirun announced") {
  const Environment& environment = testing::MpiEnvironment();
  const char* const announced = std::getenv("OMPI_COMM_WORLD_SIZE");
  REQUIRE(announced != nullptr);
  CHECK(testing::MpiWorld().size() == std::atoi(announced));
  CHECK(environment.launch().launcher == "mpirun");
  CHECK_THAT(environment.mpi_version(), Catch::Contains("MPI"));
  CHECK(environment.threads() == 1);  // OMP_NUM_THREADS of the test
  CHECK(NumThreads() == 1);
}

}  // namespace
}  // namespace dtrain
