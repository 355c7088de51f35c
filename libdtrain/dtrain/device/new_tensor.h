// new_tensor.h - a tensor that owns its memory, for use without an arena.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_NEW_TENSOR_H_
#define DTRAIN_DEVICE_NEW_TENSOR_H_

#include "dtrain/device/tensor.h"

namespace dtrain {

// The contents are undefined. The memory is freed with the last copy of the tensor; on a GPU this
// waits for the GPU.
Tensor NewTensor(const Shape& shape, DType dtype, const Device& device = {});

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_NEW_TENSOR_H_
