// choose_device.cc - counts GPUs, and compares what the ranks chose.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/choose_device.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/comm/gather.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {
namespace {

// The oldest GPU that kernels are built for: T4.
constexpr int kOldestCapability = 75;

StatusOr<Device> ChooseGpu(int count, const Communicator& comm) {
  if (count > 1 && count < comm.topology().local_size()) {
    return UsageError(absl::StrFormat(
        "%d ranks on host %s but %d GPUs: start at most %d ranks there (mpirun -H %s:%d,...), or "
        "set run.device=cpu",
        comm.topology().local_size(), comm.topology().host(comm.rank()), count, count,
        comm.topology().host(comm.rank()), count));
  }
  // Launchers that give each rank a GPU of its own show it no other.
  const Device device{DeviceType::kCuda, count == 1 ? 0 : comm.topology().local_rank()};
  if constexpr (kWithCuda) {
    const cuda::DeviceProperties properties = cuda::Properties(device);
    if (properties.compute_capability < kOldestCapability) {
      return UsageError(absl::StrFormat(
          "%s is a %s of compute capability %d.%d; dtrain needs 7.5 (T4) or newer: take another "
          "GPU (CUDA_VISIBLE_DEVICES), or set run.device=cpu",
          DeviceName(device), properties.name, properties.compute_capability / 10,
          properties.compute_capability % 10));
    }
  }
  return device;
}

}  // namespace

StatusOr<Device> ChooseDevice(DeviceChoice choice, const Communicator& comm) {
  if (choice == DeviceChoice::kCpu) return Device{};
  if constexpr (kWithCuda) {
    std::string why = "there is none on this host";
    const int count = cuda::DeviceCount(&why);
    if (count > 0) return ChooseGpu(count, comm);
    if (choice == DeviceChoice::kAuto) return Device{};
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string mask =
        visible == nullptr
            ? ""
            : absl::StrFormat(", CUDA_VISIBLE_DEVICES=%s names the GPUs it may use", visible);
    return UsageError(absl::StrFormat(
        "run.device=cuda: no usable GPU on host %s (%s)%s; see what nvidia-smi lists and that the "
        "driver is as new as this build's CUDA, or set run.device=cpu",
        comm.topology().host(comm.rank()), why, mask));
  }
  if (choice == DeviceChoice::kAuto) return Device{};
  return UsageError(
      "run.device=cuda: this build has no CUDA device; configure it with -DDTRAIN_CUDA=ON, or set "
      "run.device=cpu");
}

std::string DeviceIdentity([[maybe_unused]] const Device& device) {
  std::string identity = "cpu";
  if constexpr (kWithCuda) {
    if (device.type == DeviceType::kCuda) {
      identity = cuda::Properties(device).id;
      // NCCL's own name for a rank's host: who gives each rank another one means them to share a
      // GPU, which NCCL then allows too.
      const char* const host = std::getenv("NCCL_HOSTID");
      if (host != nullptr) absl::StrAppend(&identity, " of ", host);
    }
  }
  return identity;
}

Status CheckDevices(const Device& device, Communicator& comm) {
  const std::string mine = DeviceIdentity(device);
  if (comm.size() == 1) return OkStatus();
  const std::vector<std::string> all = AllGatherStrings(comm, mine);
  for (int a = 0; a < comm.size(); ++a) {
    for (int b = a + 1; b < comm.size(); ++b) {
      const std::string& first = all[static_cast<size_t>(a)];
      const std::string& second = all[static_cast<size_t>(b)];
      if ((first == "cpu") != (second == "cpu")) {
        return UsageError(
            absl::StrFormat("%s computes on %s, %s on %s: set run.device=cpu, or start ranks only "
                            "on hosts with GPUs",
                            comm.topology().RankName(a), first == "cpu" ? "the CPU" : "a GPU",
                            comm.topology().RankName(b), second == "cpu" ? "the CPU" : "a GPU"));
      }
      if (first != "cpu" && first == second) {
        return UsageError(absl::StrFormat(
            "ranks %d and %d share one GPU of host %s: start one rank per GPU (mpirun -H %s:N,...)",
            a, b, comm.topology().host(a), comm.topology().host(a)));
      }
    }
  }
  return OkStatus();
}

}  // namespace dtrain
