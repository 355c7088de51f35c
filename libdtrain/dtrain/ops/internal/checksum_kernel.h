// checksum_kernel.h - arguments of the kernel that implements ops/checksum.h.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_CHECKSUM_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_CHECKSUM_KERNEL_H_

#include <cstdint>

#include "dtrain/device/stream.h"

namespace dtrain {

struct ChecksumArgs {
  const float* x = nullptr;
  int64_t elements = 0;
  int64_t* sum = nullptr;
};
void ChecksumKernelCuda(const ChecksumArgs& args, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_CHECKSUM_KERNEL_H_
