// dispatch.h - turns a tensor's device and type into template arguments with one switch.
// SPDX-License-Identifier: Apache-2.0
//
//   DispatchFloat(x, [&]<DeviceType D, typename T>() { Kernel<D, T>(args, stream); });
#ifndef DTRAIN_DEVICE_DISPATCH_H_
#define DTRAIN_DEVICE_DISPATCH_H_

#include "dtrain/base/check.h"
#include "dtrain/device/tensor.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {

// Calls body.operator()<D, T>() for the tensor's device and type: float32, bfloat16 or, on CUDA
// only, float16. Other types fail a DT_CHECK.
template <typename Body>
void DispatchFloat(const Tensor& tensor, const Body& body) {
  if constexpr (kWithCuda) {
    if (tensor.device().type == DeviceType::kCuda) {
      switch (tensor.dtype()) {
        case DType::kFloat32:
          return body.template operator()<DeviceType::kCuda, float>();
        case DType::kBFloat16:
          return body.template operator()<DeviceType::kCuda, BFloat16>();
        case DType::kFloat16:
          return body.template operator()<DeviceType::kCuda, Float16>();
        default:
          break;
      }
    }
  }
  if (tensor.device().type == DeviceType::kCpu) {
    switch (tensor.dtype()) {
      case DType::kFloat32:
        return body.template operator()<DeviceType::kCpu, float>();
      case DType::kBFloat16:
        return body.template operator()<DeviceType::kCpu, BFloat16>();
      default:
        break;
    }
  }
  DT_CHECK(false) << "no kernel for " << Name(tensor.dtype()) << " on "
                  << DeviceName(tensor.device());
}

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_DISPATCH_H_
