// nccl_library_test.cc - the NCCL of this machine has what is asked of it, where there is one.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/nccl_library.h"

#include <string>

#include "dtrain/comm/device_communicator.h"
#include "dtrain/comm/self_communicator.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

TEST_CASE("NCCL is loaded with its functions, or the message says what to do") {
  const StatusOr<std::string> version = NcclVersion();
  if (!version.ok()) {
    CHECK_THAT(std::string(version.status().message()), Catch::Contains("install"));
    return;
  }
  CHECK_THAT(*version, Catch::StartsWith("2."));
  const internal::NcclLibrary& nccl = **internal::NcclLibrary::Get();
  CHECK(!std::string(nccl.GetErrorString(internal::NcclResult::kRemoteError)).empty());
  CHECK(std::string(nccl.GetErrorString(internal::NcclResult::kSuccess)) == "no error");
}

TEST_CASE("a CPU has no device communicator") {
  SelfCommunicator comm;
  std::string why;
  CHECK(MakeDeviceCommunicator(comm, Device{}, &why) == nullptr);
  CHECK(why == "rank 0 (host localhost): it computes on the CPU");
}

}  // namespace
}  // namespace dtrain
