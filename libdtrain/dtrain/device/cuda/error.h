// error.h - CudaError, thrown when a CUDA call fails: the call and the library's own text.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_CUDA_ERROR_H_
#define DTRAIN_DEVICE_CUDA_ERROR_H_

#include <stdexcept>
#include <string>

namespace dtrain {

// A CUDA, cuBLASLt or kernel call failed. After most such failures the process has lost its GPU
// state: report the error and exit.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_CUDA_ERROR_H_
