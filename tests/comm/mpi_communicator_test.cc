// mpi_communicator_test.cc - the suite under mpirun, and what the environment chose.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/mpi_communicator.h"

#include <sched.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator_suite.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/base/timer.h"
#include "testing/catch.h"
#include "testing/mpi_world.h"

namespace dtrain {
namespace {

TEST_CASE("processes over MPI pass the suite") {
  for (const auto& test_case : testing::CommunicatorCases()) {
    INFO(test_case.name);
    CHECK(test_case.run(testing::MpiWorld()) == "");
  }
}

// What ranks of one host send each other as MPI messages, too.
std::unique_ptr<Communicator> WithoutSharedMemory() {
  return MakeMpiCommunicator({.timeout_seconds = 10, .shared_memory = false});
}

TEST_CASE("exchanges of two groups pass each other over MPI, whichever a rank starts first") {
  constexpr int64_t kCount = 100000;
  const auto comm = WithoutSharedMemory();
  const auto first = comm->Split(0);
  const auto second = comm->Split(0);
  std::vector<float> ones(kCount, 1.0f);
  std::vector<float> tens(kCount, 10.0f);
  std::vector<std::unique_ptr<Handle>> handles;
  const auto start = [&](Communicator& group, std::vector<float>& values) {
    handles.push_back(group.StartAllReduce(values.data(), kCount, DType::kFloat32, ReduceOp::kSum));
  };
  if (comm->rank() % 2 == 0) start(*first, ones);
  start(*second, tens);
  if (comm->rank() % 2 == 1) start(*first, ones);
  bool done = false;
  for (const Timer timer; !done && timer.Seconds() < 10;) {
    done = true;
    for (const auto& handle : handles) done = handle->Test() && done;
  }
  CHECK(done);
  const auto size = static_cast<float>(comm->size());
  const bool are_sums =
      ones == std::vector<float>(kCount, size) && tens == std::vector<float>(kCount, 10 * size);
  CHECK(are_sums);
}

TEST_CASE("a message over MPI that is shorter than expected is told") {
  const auto comm = WithoutSharedMemory();
  const auto pair = comm->Split(comm->rank() / 2);
  std::vector<char> data(200);
  std::string told;
  try {
    pair->Broadcast(data.data(), pair->is_root() ? 100 : 200, 0);
  } catch (const CommError& error) {
    told = error.what();
  }
  if (pair->is_root()) {
    CHECK(told == "");
  } else {
    CHECK_THAT(told, Catch::Contains(" sent 100 bytes where 200 were expected"));
  }
}

TEST_CASE("the world is the one mpirun announced") {
  const Environment& environment = testing::MpiEnvironment();
  const char* announced = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (announced == nullptr) announced = std::getenv("PMI_SIZE");  // MPICH's
  REQUIRE(announced != nullptr);
  CHECK(testing::MpiWorld().size() == std::atoi(announced));
  CHECK(environment.launch().launcher == "mpirun");
  CHECK_THAT(environment.mpi_version(), Catch::Contains("MPI"));
  CHECK(environment.threads() == 1);  // OMP_NUM_THREADS of the test
  CHECK(NumThreads() == 1);
}

}  // namespace
}  // namespace dtrain
