// with_cuda.h - whether this build has the CUDA device: the only build switch the code looks at.
// SPDX-License-Identifier: Apache-2.0
//
// Apart from device.h, which nearly everything includes: what does not look at the switch is the
// same text in every build, and a compiler cache compiles it once for all of them.
#ifndef DTRAIN_DEVICE_WITH_CUDA_H_
#define DTRAIN_DEVICE_WITH_CUDA_H_

namespace dtrain {

#if defined(DTRAIN_WITH_CUDA)
inline constexpr bool kWithCuda = true;
#else
inline constexpr bool kWithCuda = false;
#endif

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_WITH_CUDA_H_
