// gpus.h - which GPUs the emulated runtime says there are, for tests of what programs make of them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_HOST_EXECUTOR_GPUS_H_
#define DTRAIN_TESTS_TESTING_HOST_EXECUTOR_GPUS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::host_executor {

struct Gpu {
  std::string name = "host executor";
  std::string id = {};  // empty: one of this process
  int compute_capability = 90;
  size_t bytes = size_t{8} << 30;  // after which memory is exhausted
};

// Of the process; changed while no other thread computes. Work runs on the first GPU alone.
struct GpuSettings {
  std::vector<Gpu> gpus = {Gpu()};
  bool has_address_spaces = true;                          // device/cuda/address_space.h
  std::string why = "no CUDA-capable device is detected";  // where there is none
};
GpuSettings& Gpus();

// Bytes that the calling thread, which is one rank, has copied so far from the GPU's memory to the
// host's. What graphs repeat is not counted.
int64_t& BytesToHost();
// All threads together.
std::atomic<int64_t>& AllBytesToHost();

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTS_TESTING_HOST_EXECUTOR_GPUS_H_
