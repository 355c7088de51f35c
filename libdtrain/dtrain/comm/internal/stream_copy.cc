// stream_copy.cc - non-temporal stores of SSE2, which every x86-64 has.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/stream_copy.h"

#include <cstdint>
#include <cstring>

#include "dtrain/base/check.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace dtrain::internal {

#if defined(__SSE2__)

void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kLine = 64;  // whole lines: the processor sends half written ones twice
  DT_CHECK_EQ(reinterpret_cast<uintptr_t>(to) % kLine, 0u);
  size_t i = 0;
  for (; i + kLine <= bytes; i += kLine) {
    auto* const line = reinterpret_cast<__m128i*>(to + i);
    const auto* const source = reinterpret_cast<const __m128i*>(from + i);
    for (int k = 0; k < 4; ++k) _mm_stream_si128(line + k, _mm_loadu_si128(source + k));
  }
  std::memcpy(to + i, from + i, bytes - i);
}

void FinishStreamCopies() { _mm_sfence(); }

#else

void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

void FinishStreamCopies() {}

#endif

}  // namespace dtrain::internal
