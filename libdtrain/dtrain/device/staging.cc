// staging.cc - fills one pinned buffer while the GPU reads the other.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/staging.h"

#include <algorithm>
#include <cstring>

#include "dtrain/base/check.h"
#include "dtrain/device/cuda/error.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/with_cuda.h"

namespace dtrain {
namespace {

constexpr size_t kSmallestBuffer = size_t{1} << 20;  // enough for what several micro-batches upload
constexpr size_t kPieceAlignment = 64;

}  // namespace

void Staging::Copy(void* to, const void* host, size_t bytes, Stream& stream) {
  DT_CHECK_LE(bytes, kMaxBytes);
  if constexpr (kWithCuda) {
    // A repeated copy would read whatever the buffer holds by then.
    if (cuda::IsCapturing(device_, stream.handle())) {
      throw CudaError("a copy from the host's memory cannot be recorded");
    }
  }
  if (halves_[current_].used + bytes > halves_[current_].buffer.bytes()) {
    halves_[current_].copied.Record(stream);
    current_ = 1 - current_;
    Half& next = halves_[current_];
    next.copied.Wait();
    next.used = 0;
    if (bytes > next.buffer.bytes()) {
      next.buffer = Buffer(device_, std::max(bytes, kSmallestBuffer), ArenaMemory::kPinned);
    }
  }
  Half& half = halves_[current_];
  std::byte* const staged = half.buffer.data() + half.used;
  std::memcpy(staged, host, bytes);
  half.used =
      std::min((half.used + bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment,
               half.buffer.bytes());
  if constexpr (kWithCuda) cuda::Copy(device_, to, staged, bytes, stream.handle());
}

}  // namespace dtrain
