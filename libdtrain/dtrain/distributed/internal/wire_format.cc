// wire_format.cc - conversions in parallel over the elements.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/internal/wire_format.h"

#include "dtrain/base/thread_pool.h"

namespace dtrain::internal {
namespace {

constexpr int64_t kWireGrain = 1 << 16;  // elements worth waking a thread for

template <typename Wire>
void RoundTo(const float* from, std::byte* staging, int64_t count, float factor) {
  Wire* const to = reinterpret_cast<Wire*>(staging);
  ParallelFor(count, kWireGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = Wire(from[i] * factor);
  });
}

template <typename Wire>
void WidenFrom(const std::byte* staging, float* to, int64_t count, float factor) {
  const Wire* const from = reinterpret_cast<const Wire*>(staging);
  ParallelFor(count, kWireGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i]) * factor;
  });
}

}  // namespace

void RoundToWire(const float* from, int64_t count, DType wire_type, int ranks, std::byte* to) {
  if (wire_type == DType::kBFloat16) {
    RoundTo<BFloat16>(from, to, count, 1.0f);
  } else {
    RoundTo<Float16>(from, to, count, 1.0f / static_cast<float>(ranks));
  }
}

void WidenFromWire(const std::byte* from, int64_t count, DType wire_type, int ranks, float* to) {
  if (wire_type == DType::kBFloat16) {
    WidenFrom<BFloat16>(from, to, count, 1.0f);
  } else {
    WidenFrom<Float16>(from, to, count, static_cast<float>(ranks));
  }
}

}  // namespace dtrain::internal
