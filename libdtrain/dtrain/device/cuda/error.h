// error.h - what a failed CUDA call throws: the library's own text and the call.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_ERROR_H_
#define DTRAIN_DEVICE_CUDA_ERROR_H_

#include <stdexcept>
#include <string>

namespace dtrain {

// A failed CUDA, cuBLASLt or kernel call. After most of them the process' GPU state is lost: report
// and end.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_ERROR_H_
