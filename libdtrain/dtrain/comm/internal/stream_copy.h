// stream_copy.h - copies whose writes go past the caches.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_STREAM_COPY_H_
#define DTRAIN_COMM_INTERNAL_STREAM_COPY_H_

#include <cstddef>

namespace dtrain::internal {

// memcpy by non-temporal stores; `to` at a multiple of 64. An ordinary copy on processors without
// such stores.
void StreamCopy(std::byte* to, const std::byte* from, size_t bytes);
// Before a flag is raised that tells of such copies: no store after this overtakes them.
void FinishStreamCopies();

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_STREAM_COPY_H_
