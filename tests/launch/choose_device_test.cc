// choose_device_test.cc - which GPU each rank takes, and what it says where there is none for it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/choose_device.h"

#include <string>
#include <vector>

#include "dtrain/device/arena.h"
#include "dtrain/device/buffer.h"
#include "dtrain/device/cuda/error.h"
#include "dtrain/device/stream.h"
#include "testing/catch.h"
#include "testing/host_executor/gpus.h"
#include "testing/run_ranks.h"

namespace dtrain {
namespace {

using host_executor::Gpu;
using host_executor::Gpus;
using host_executor::GpuSettings;

// GPUs of this host until the end of the test.
struct Hardware {
  explicit Hardware(std::vector<Gpu> gpus) { Gpus().gpus = std::move(gpus); }
  Hardware(const Hardware&) = delete;
  Hardware& operator=(const Hardware&) = delete;
  ~Hardware() { Gpus() = GpuSettings(); }
};

struct Choice {
  std::string device, error, check;
  ExitCode code = ExitCode::kDone, check_code = ExitCode::kDone;
};

// What each rank of that many on one host chooses, and what CheckDevices() then says.
std::vector<Choice> Choose(DeviceChoice choice, int ranks) {
  return testing::RunRanks(ranks, [&](Communicator& comm) {
    Choice chosen;
    const StatusOr<Device> device = ChooseDevice(choice, comm);
    chosen.code = device.status().code();
    chosen.error = device.status().message();
    if (device.ok()) {
      chosen.device = DeviceName(*device);
      const Status check = CheckDevices(*device, comm);
      chosen.check_code = check.code();
      chosen.check = check.message();
    }
    return chosen;
  });
}

std::vector<Gpu> TwoGpus() { return {{.id = "first"}, {.id = "second"}}; }

TEST_CASE("ranks of a host take its GPUs in order, and the CPU where it is asked for") {
  const Hardware hardware(TwoGpus());
  const std::vector<Choice> both = Choose(DeviceChoice::kAuto, 2);
  CHECK(both[0].device == "cuda:0");
  CHECK(both[1].device == "cuda:1");
  CHECK(both[0].check.empty());
  CHECK(Choose(DeviceChoice::kCpu, 1)[0].device == "cpu");
}

TEST_CASE("no GPU is an error where one is asked for, and the CPU elsewhere") {
  const Hardware hardware(std::vector<Gpu>{});
  CHECK(Choose(DeviceChoice::kAuto, 1)[0].device == "cpu");
  const Choice choice = Choose(DeviceChoice::kCuda, 1)[0];
  CHECK(choice.code == ExitCode::kUsage);
  CHECK_THAT(choice.error, Catch::StartsWith("run.device=cuda: no usable GPU on host a (no "
                                             "CUDA-capable device is detected)") &&
                               Catch::Contains("nvidia-smi"));
}

TEST_CASE("a driver that is too old is named as CUDA names it") {
  const Hardware hardware(std::vector<Gpu>{});
  Gpus().why = "CUDA driver version is insufficient for CUDA runtime version";
  const Choice choice = Choose(DeviceChoice::kCuda, 1)[0];
  CHECK(choice.code == ExitCode::kUsage);
  CHECK_THAT(choice.error, Catch::Contains("(CUDA driver version is insufficient for CUDA runtime "
                                           "version)") &&
                               Catch::Contains("the driver is as new as this build's CUDA"));
}

TEST_CASE("a mask that hides all GPUs is named") {
  const Hardware hardware(std::vector<Gpu>{});
  setenv("CUDA_VISIBLE_DEVICES", "7", /*replace=*/1);
  const Choice choice = Choose(DeviceChoice::kCuda, 1)[0];
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(choice.code == ExitCode::kUsage);
  CHECK_THAT(choice.error, Catch::Contains("CUDA_VISIBLE_DEVICES=7 names the GPUs it may use"));
  CHECK_THAT(Choose(DeviceChoice::kCuda, 1)[0].error, !Catch::Contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("a GPU that is too old is refused with its name and what is needed") {
  const Hardware hardware(std::vector<Gpu>{{.name = "Tesla V100", .compute_capability = 70}});
  const Choice choice = Choose(DeviceChoice::kAuto, 1)[0];
  CHECK(choice.code == ExitCode::kUsage);
  CHECK_THAT(choice.error, Catch::Contains("cuda:0 is a Tesla V100 of compute capability 7.0; "
                                           "dtrain needs 7.5 (T4) or newer"));
  Gpus().gpus[0].compute_capability = 75;
  CHECK(Choose(DeviceChoice::kAuto, 1)[0].error.empty());
}

TEST_CASE("more ranks than GPUs are refused with how many there may be") {
  const Hardware hardware(TwoGpus());
  for (const Choice& choice : Choose(DeviceChoice::kCuda, 3)) {
    CHECK(choice.code == ExitCode::kUsage);
    CHECK_THAT(choice.error, Catch::StartsWith("3 ranks on host a but 2 GPUs: start at most 2"));
  }
}

TEST_CASE("two ranks that see the same GPU are told so") {
  const Hardware hardware(std::vector<Gpu>{{.id = "the only one"}});
  for (const Choice& choice : Choose(DeviceChoice::kCuda, 2)) {
    CHECK(choice.error.empty());  // each sees one GPU, as behind a launcher that deals them out
    CHECK(choice.check_code == ExitCode::kUsage);
    CHECK_THAT(choice.check, Catch::StartsWith("ranks 0 and 1 share one GPU of host a: start one "
                                               "rank per GPU"));
  }
}

TEST_CASE("ranks share a GPU where NCCL is told that each has a host of its own") {
  const Hardware hardware(std::vector<Gpu>{{.id = "the only one"}});
  const Device gpu{DeviceType::kCuda};
  CHECK(DeviceIdentity(gpu) == "the only one");
  setenv("NCCL_HOSTID", "first", /*replace=*/1);
  const std::string first = DeviceIdentity(gpu);
  // One name for both is no leave.
  CHECK(Choose(DeviceChoice::kCuda, 2)[1].check_code == ExitCode::kUsage);
  setenv("NCCL_HOSTID", "second", /*replace=*/1);
  CHECK(DeviceIdentity(gpu) != first);
  CHECK(DeviceIdentity(Device{}) == "cpu");
  unsetenv("NCCL_HOSTID");
}

TEST_CASE("ranks that compute on different kinds of devices are told so") {
  const Hardware hardware(std::vector<Gpu>{Gpu()});
  const std::vector<std::string> messages = testing::RunRanks(2, [](Communicator& comm) {
    const Device device{comm.rank() == 0 ? DeviceType::kCpu : DeviceType::kCuda};
    return std::string(CheckDevices(device, comm).message());
  });
  for (const std::string& message : messages) {
    CHECK_THAT(message, Catch::StartsWith("rank 0 (host a) computes on the CPU, rank 1 (host a) on "
                                          "a GPU: set run.device=cpu"));
  }
}

TEST_CASE("a device that is not there is an error of CUDA") {
  const Hardware hardware(std::vector<Gpu>{Gpu()});
  const auto arena = Arena::Create({DeviceType::kCuda, 5}, "test");
  CHECK_THROWS_AS(arena->Allocate(100), CudaError);
}

TEST_CASE("a full GPU says who wants how much and what the others hold") {
  const Hardware hardware(std::vector<Gpu>{{.bytes = size_t{300} << 20}});
  const Device gpu{DeviceType::kCuda};
  const auto weights = Arena::Create(gpu, "parameters");
  const auto activations = Arena::Create(gpu, "activations");
  const auto kept = weights->Allocate(size_t{200} << 20);
  std::string message;
  try {
    const auto more = activations->Allocate(size_t{150} << 20);
  } catch (const DeviceMemoryError& error) {
    message = error.what();
  }
  CHECK_THAT(message, Catch::Contains("cuda:0 is full: activations need 151 MiB more") &&
                          Catch::Contains("parameters 200 MiB"));
  CHECK(activations->Allocate(size_t{20} << 20) != nullptr);  // what is left is still good
}

std::shared_ptr<Arena> Growing() {
  return Arena::Create({DeviceType::kCuda}, "activations", Arena::kDefaultCapacity,
                       ArenaMemory::kGrowing);
}

// Of requests that differ from step to step, each of two tensors of which the first is freed.
void TakeUnlikeSteps(const std::shared_ptr<Arena>& arena) {
  for (size_t mib = 70; mib <= 100; mib += 5) {
    const auto input = arena->Allocate(mib << 20);
    const auto output = arena->Allocate(mib << 19);
  }
}

TEST_CASE("a growing arena takes no more of a GPU than what is in use at once") {
  // 150 MiB in use at most, of a GPU that has room for it once.
  const Hardware hardware(std::vector<Gpu>{{.bytes = size_t{192} << 20}});
  const auto arena = Growing();
  TakeUnlikeSteps(arena);
  CHECK(arena->peak() >> 20 == 150);
  std::string message;
  const auto kept = arena->Allocate(size_t{120} << 20);
  try {
    const auto more = arena->Allocate(size_t{80} << 20);
  } catch (const DeviceMemoryError& error) {
    message = error.what();
  }
  CHECK_THAT(message, Catch::Contains("cuda:0 is full: activations need 81 MiB more (held: "
                                      "activations 160 MiB)"));
  CHECK(arena->Allocate(size_t{20} << 20) != nullptr);  // what is left is still good
}

TEST_CASE("what a growing arena took is free after it") {
  const Hardware hardware(std::vector<Gpu>{{.bytes = size_t{192} << 20}});
  for (int i = 0; i < 3; ++i) TakeUnlikeSteps(Growing());
  CHECK(Arena::Create({DeviceType::kCuda}, "test")->Allocate(size_t{180} << 20) != nullptr);
}

TEST_CASE("without address spaces a growing arena takes slabs") {
  const Hardware hardware(std::vector<Gpu>{{.bytes = size_t{192} << 20}});
  Gpus().has_address_spaces = false;
  const auto arena = Growing();
  CHECK_THROWS_AS(TakeUnlikeSteps(arena), DeviceMemoryError);
  CHECK(arena->Allocate(size_t{70} << 20) != nullptr);
}

TEST_CASE("so it does where a kernel's scratch or a buffer finds no room") {
  const Hardware hardware(std::vector<Gpu>{{.bytes = size_t{300} << 20}});
  const Device gpu{DeviceType::kCuda};
  const auto weights = Arena::Create(gpu, "parameters");
  const auto kept = weights->Allocate(size_t{200} << 20);
  const auto message = [](const auto& take) -> std::string {
    try {
      take();
    } catch (const DeviceMemoryError& error) {
      return error.what();
    }
    return "";
  };
  Stream stream(gpu);
  stream.Scratch(size_t{20} << 20, "attention");
  CHECK_THAT(message([&] { stream.Scratch(size_t{150} << 20, "embedding"); }),
             Catch::Contains(
                 "cuda:0 is full: scratch buffers of kernels (embedding) need 151 MiB more (held: "
                 "parameters 200 MiB)"));
  CHECK(stream.Scratch(size_t{20} << 20, "attention") != nullptr);
  CHECK_THAT(message([&] { const Buffer buffer(gpu, size_t{150} << 20); }),
             Catch::Contains("cuda:0 is full: buffers need 151 MiB more (held: parameters 200 MiB, "
                             "scratch buffers of kernels 25 MiB)"));
}

}  // namespace
}  // namespace dtrain
