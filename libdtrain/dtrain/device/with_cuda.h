// with_cuda.h - true if this build includes the CUDA device; the only build switch in the code.
// SPDX-License-Identifier: Apache-2.0
//
// It is separate from device.h, which nearly every file includes. A file that does not use the
// switch is then the same text in every build, so a compiler cache compiles it once for all builds.
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
