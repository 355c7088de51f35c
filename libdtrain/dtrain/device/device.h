// device.h - where tensors live and ops run: the CPU, or one CUDA GPU.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_DEVICE_H_
#define DTRAIN_DEVICE_DEVICE_H_

#include <string>

namespace dtrain {

enum class DeviceType { kCpu, kCuda };

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
