// gpu_collectives_test.cc - named collectives on GPUs' tensors, with the emulated NCCL and without.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "comm/collectives_suite.h"
#include "comm/gpu_collectives_suite.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/tensor.h"
#include "testing/catch.h"
#include "testing/host_executor/gpus.h"
#include "testing/host_executor/nccl.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using testing::RunRanksOn;

constexpr Device kGpu = {DeviceType::kCuda};

void CheckAll(const std::vector<std::string>& hosts, const CommunicatorOptions& options) {
  const auto errors = RunRanksOn(
      hosts, [](Communicator& comm) { return NamedGpuCollectiveErrors(comm, kGpu); }, options);
  for (const auto& found : errors) CHECK(found == std::vector<std::string>());
}

TEST_CASE("named collectives take GPUs' tensors, through NCCL and through the host") {
  for (const bool nccl : {true, false}) {
    for (const int ranks : {1, 2, 3, 4}) {
      INFO(ranks << " ranks, NCCL " << nccl);
      CheckAll(testing::OneHost(ranks), {.nccl = nccl});
    }
  }
}

TEST_CASE("with NCCL gathers, scatters and all-to-alls copy nothing to the host") {
  const auto copied = RunRanksOn(testing::OneHost(3), [](Communicator& comm) {
    // The queue's thread moves them: it is not this one that copies.
    Collectives collectives(comm);
    const Tensor tensor = NewTensor({3000}, DType::kFloat32, kGpu);
    Stream stream(kGpu);
    FillWithZeros(tensor.raw(), tensor.bytes(), tensor.bytes(), 1, stream);
    stream.Synchronize();
    comm.Barrier();
    const int64_t before = host_executor::AllBytesToHost();
    std::string found = testing::ExpectOk(collectives.AllGather("gather", tensor).Wait());
    found += testing::ExpectOk(
        collectives.ReduceScatter("scatter", tensor, {.op = ReduceOp::kSum}).Wait());
    found += testing::ExpectOk(collectives.AllToAll("all-to-all", tensor).Wait());
    comm.Barrier();
    const int64_t bytes = host_executor::AllBytesToHost() - before;
    return found + (bytes == 0 ? "" : std::to_string(bytes) + " bytes");
  });
  for (const std::string& found : copied) CHECK(found == "");
}

TEST_CASE("so they do on two hosts") { CheckAll({"a", "b", "a", "b"}, {}); }

TEST_CASE("a rank's tensors lie on one GPU") {
  const auto wrong = RunRanksOn(testing::OneHost(2), [](Communicator& comm) {
    Collectives collectives(comm);
    const Tensor tensor = NewTensor({8}, DType::kFloat32, kGpu);
    std::string found = testing::ExpectOk(collectives.AllReduce("first", tensor).Wait());
    const Tensor elsewhere(tensor.raw(), {8}, DType::kFloat32, {DeviceType::kCuda, 1});
    found += testing::ExpectError(collectives.AllReduce("second", elsewhere).Wait(),
                                  ExitCode::kUsage, {"GPU 1", "GPU 0"});
    return found;
  });
  for (const std::string& found : wrong) CHECK(found == "");
}

TEST_CASE("a rank that joined before it had a GPU's tensor leaves NCCL out, and nothing hangs") {
  const auto wrong = RunRanksOn(testing::OneHost(3), [](Communicator& comm) {
    Collectives collectives(comm);
    std::string found;
    if (comm.rank() != 0) {
      const Tensor tensor = NewTensor({4}, DType::kFloat32, kGpu);
      const std::vector<float> ones(4, 1.0f);
      Stream stream(kGpu);
      CopyToDevice(tensor.raw(), ones.data(), tensor.bytes(), stream);
      stream.Synchronize();
      found += testing::ExpectOk(collectives.AllReduce("x", tensor, {ReduceOp::kSum}).Wait());
      std::vector<float> sum(4);
      CopyToHost(sum.data(), tensor.raw(), tensor.bytes(), stream);
      found += testing::ExpectAll("the sum", sum, 2);
    }
    found += testing::ExpectOk(collectives.Join().status());
    return found;
  });
  for (const std::string& found : wrong) CHECK(found == "");
}

TEST_CASE("an error of NCCL ends the collectives on every rank") {
  // Of each communicator the first collective proves it.
  host_executor::NcclOfNewThreads().failing = 1;
  const auto statuses =
      RunRanksOn(testing::OneHost(2),
                 [](Communicator& comm) {
                   Collectives collectives(comm);
                   const Tensor tensor = NewTensor({1 << 16}, DType::kFloat32, kGpu);
                   const Status first = collectives.AllReduce("x", tensor).Wait();
                   const Status second = collectives.AllReduce("x", tensor).Wait();
                   return std::vector<Status>{first, second};
                 },
                 {.timeout_seconds = 2.0, .slow_seconds = 1.0});
  host_executor::NcclOfNewThreads() = {};
  for (const auto& status : statuses) {
    CHECK(status[0].code() == ExitCode::kCommunication);
    CHECK(status[1].code() == ExitCode::kCommunication);
  }
}

}  // namespace
}  // namespace dtrain
