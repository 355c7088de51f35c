// guard.h - marks the gaps between tensors for AddressSanitizer; does nothing in other builds.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DEVICE_INTERNAL_GUARD_H_
#define DTRAIN_DEVICE_INTERNAL_GUARD_H_

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace dtrain {

#if defined(__SANITIZE_ADDRESS__)
inline void Forbid(const void* begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
inline void Permit(const void* begin, size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }
#else
inline void Forbid(const void*, size_t) {}
inline void Permit(const void*, size_t) {}
#endif

}  // namespace dtrain

#endif  // DTRAIN_DEVICE_INTERNAL_GUARD_H_
