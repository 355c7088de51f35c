// new_tensor.h - a tensor with memory of its own, where there is no arena.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_NEW_TENSOR_H_
#define DTRAIN_DEVICE_NEW_TENSOR_H_

#include "dtrain/device/tensor.h"

namespace dtrain {

// Contents undefined. The last copy frees the memory, which on a GPU waits for the GPU.
Tensor NewTensor(const Shape& shape, DType dtype, const Device& device = {});

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_NEW_TENSOR_H_
