// host_copy.h - copies bytes in the host's memory, unless they are in place already.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_HOST_COPY_H_
#define DTRAIN_COMM_INTERNAL_HOST_COPY_H_

#include <cstddef>
#include <cstring>

namespace dtrain::internal {

// The ranges are the same or do not overlap. They may be null if `bytes` is 0.
inline void HostCopy(const void* from, void* to, size_t bytes) {
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
}

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_HOST_COPY_H_
