// mpi_nccl_test.cc - NCCL itself between processes, on the GPUs of this machine or all on one.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>
#include <vector>

#include "comm/device_collectives_suite.h"
#include "comm/gpu_collectives_suite.h"
#include "dtrain/device/cuda/runtime.h"
#include "testing/catch.h"
#include "testing/mpi_world.h"

namespace dtrain {
namespace {

// NCCL refuses two ranks on one GPU of a host, and takes them for two hosts where each says so:
// they then meet over sockets. For tests alone; NCCL's authors do not support it.
void PretendToHaveHosts(int rank) {
  setenv("NCCL_HOSTID", ("dtrain-" + std::to_string(rank)).c_str(), 1);
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"NCCL_NET", "Socket"},
                                                        {"NCCL_SOCKET_IFNAME", "lo"},
                                                        {"NCCL_ALGO", "Ring"},
                                                        {"NCCL_PROTO", "Simple"},
                                                        {"NCCL_MAX_CTAS", "2"},
                                                        {"NCCL_NVLS_ENABLE", "0"},
                                                        {"NCCL_RAS_ENABLE", "0"}}) {
    setenv(name, value, 1);
  }
}

TEST_CASE("NCCL's collectives compute what those over MPI compute") {
  Communicator& comm = testing::MpiWorld();
  const int gpus = comm.AllReduceValue(cuda::DeviceCount(), ReduceOp::kMin);
  if (gpus == 0 || !NcclVersion().ok()) {
    WARN("skipped: no GPU, or no NCCL");
    return;
  }
  if (gpus < comm.topology().local_size()) PretendToHaveHosts(comm.rank());
  std::string why;
  const Device device = {DeviceType::kCuda, comm.topology().local_rank() % gpus};
  const auto connected = MakeDeviceCommunicator(comm, device, &why);
  INFO(why);
  REQUIRE(connected != nullptr);
  CHECK(DeviceCollectiveErrors(comm, *connected) == std::vector<std::string>());
  CHECK(NamedGpuCollectiveErrors(comm, device) == std::vector<std::string>());
}

}  // namespace
}  // namespace dtrain
