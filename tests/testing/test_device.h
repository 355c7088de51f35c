// test_device.h - where a test's ops run: the CPU, a GPU, or the host executor in its place.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_TEST_DEVICE_H_
#define DTRAIN_TESTS_TESTING_TEST_DEVICE_H_

#include <cstdlib>
#include <string>
#include <vector>

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain::testing {

// Where the tests of this process run their ops: the CPU, or the GPU under DTRAIN_TEST_DEVICE=cuda.
inline Device TestDevice() {
  const char* const name = std::getenv("DTRAIN_TEST_DEVICE");
  return {name != nullptr && std::string(name) == "cuda" ? DeviceType::kCuda : DeviceType::kCpu};
}

// The element types of an op's floating-point tensors on TestDevice().
inline std::vector<DType> FloatTypes() {
  if (TestDevice().type == DeviceType::kCpu) return {DType::kFloat32, DType::kBFloat16};
  return {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
}

// Before the test looks at what ops wrote, or writes what they may still read.
inline void FinishOps() { SynchronizeDevice(TestDevice()); }

// All elements, in host memory.
template <typename T>
std::vector<T> ElementsOf(const Tensor& tensor) {
  Stream stream(tensor.device());
  SynchronizeDevice(tensor.device());
  return Download<T>(tensor, stream);
}
// Fills a tensor from host memory.
template <typename T>
void SetElements(const std::vector<T>& values, Tensor& tensor) {
  Stream stream(tensor.device());
  Upload<T>(values, tensor, stream);
  stream.Synchronize();
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_TESTING_TEST_DEVICE_H_
