// stream_copy.h - copies that bypass the caches when they write.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_STREAM_COPY_H_
#define DTRAIN_COMM_INTERNAL_STREAM_COPY_H_

#include <cstddef>

namespace dtrain::internal {

// memcpy by non-temporal stores, or an ordinary copy on processors without such stores. `to` is a
// multiple of 64.
void StreamCopy(std::byte* to, const std::byte* from, size_t bytes);
// Call it before raising a flag that announces such copies: no later store overtakes them.
void FinishStreamCopies();

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_STREAM_COPY_H_
