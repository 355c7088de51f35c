// device.h - where tensors live and ops run: the CPU, or one CUDA GPU.
// SPDX-License-Identifier: Apache-2.0
//
//   const Device gpu = {.type = DeviceType::kCuda, .index = 1};
//   std::printf("%s\n", DeviceName(gpu).c_str());  // cuda:1
#ifndef DTRAIN_DEVICE_DEVICE_H_
#define DTRAIN_DEVICE_DEVICE_H_

#include <string>

namespace dtrain {

// The kinds of devices.
enum class DeviceType { kCpu, kCuda };

// A place of tensors. The default is the CPU.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;  // number of the GPU on this host; 0 for the CPU

  friend bool operator==(const Device&, const Device&) = default;
};

// Returns "cpu" or for example "cuda:1".
inline std::string DeviceName(const Device& device) {
  return device.type == DeviceType::kCpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_DEVICE_H_
