// attention_device.h - arguments that our and cuDNN's attention on a GPU both need on the device.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_ATTENTION_DEVICE_H_
#define DTRAIN_OPS_INTERNAL_ATTENTION_DEVICE_H_

#include <cstddef>
#include <cstdint>

#include "dtrain/ops/internal/attention_kernel.h"

namespace dtrain {

// Returns `args` with both offset arrays in device memory, and `bytes` of scratch memory, aligned
// to 256 bytes (null if `bytes` is 0).
struct AttentionOnDevice {
  AttentionArgs args;
  std::byte* scratch;
};
AttentionOnDevice PutOnDevice(const AttentionArgs& host_args, size_t bytes, Stream& stream);

// True if rows consist of whole, aligned 16-byte chunks of two-byte elements.
inline bool IsAligned(const void* rows, int64_t stride) {
  return reinterpret_cast<uintptr_t>(rows) % 16 == 0 && stride % 8 == 0;
}
inline bool AreAligned(const AttentionArgs& args, bool backward) {
  return IsAligned(args.q, args.q_stride) && IsAligned(args.k, args.k_stride) &&
         IsAligned(args.v, args.v_stride) && IsAligned(args.out, args.out_stride) &&
         (!backward ||
          (IsAligned(args.d_out, args.d_out_stride) && IsAligned(args.dq, args.dq_stride) &&
           IsAligned(args.dk, args.dk_stride) && IsAligned(args.dv, args.dv_stride)));
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ATTENTION_DEVICE_H_
