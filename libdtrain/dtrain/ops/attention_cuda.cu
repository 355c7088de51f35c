// attention_cuda.cu - attention on a GPU: chooses the kernels and the number of blocks.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/device/copy.h"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/ops/attention_engine.h"
#include "dtrain/ops/internal/attention_device.h"
#include "dtrain/ops/internal/attention_flash_backward.cuh"
#include "dtrain/ops/internal/attention_flash_forward.cuh"
#include "dtrain/ops/internal/attention_plain.cuh"
#include "dtrain/ops/internal/attention_plans.h"
#include "dtrain/ops/internal/attention_row_backward.cuh"
#include "dtrain/ops/internal/attention_warpgroup.cuh"

namespace dtrain {
namespace {

// Number of blocks of a launch: the blocks for the longest sequence, times heads and sequences.
int64_t BlocksOf(const AttentionArgs& args, int64_t max_rows, int rows) {
  const int64_t tiles = (max_rows + rows - 1) / rows;
  return tiles * args.num_heads * args.sequences;
}

LaunchShape ShapeOf(const AttentionArgs& args, int64_t max_rows, int rows, int threads,
                    size_t shared_bytes) {
  return {
      .blocks = {BlocksOf(args, max_rows, rows)}, .threads = threads, .shared_bytes = shared_bytes};
}

// ---- without matrix units -----------------------------------------------------------------------

template <typename T, bool kWindow>
void PlainForward(const AttentionArgs& args, Stream& stream) {
  Launch(PlainAttentionForwardKernel<T, kWindow>,
         ShapeOf(args, args.max_queries, kPlainWarps * kPlainForwardRows, kPlainThreads,
                 PlainForwardSharedBytes(args.head_dim)),
         args, stream);
}

template <typename T, bool kWindow>
void PlainBackward(const AttentionArgs& args, Stream& stream) {
  constexpr int kRows = kPlainWarps * kPlainBackwardRows;
  const size_t shared_bytes = PlainBackwardSharedBytes(args.head_dim);
  Launch(PlainAttentionBackwardKernel<T, false, kWindow>,
         ShapeOf(args, args.max_queries, kRows, kPlainThreads, shared_bytes), args, stream);
  Launch(PlainAttentionBackwardKernel<T, true, kWindow>,
         ShapeOf(args, args.max_keys, kRows, kPlainThreads, shared_bytes), args, stream);
}

// ---- with matrix units (tensor cores) -----------------------------------------------------------

// Properties of the GPU that the choice of a kernel depends on.
struct GpuKind {
  int compute_capability = 0;
  int multiprocessors = 0;
};

GpuKind KindOf(const Device& device) {
  thread_local std::vector<GpuKind> known;  // cached: a query of the driver takes longer than a
                                            // kernel
  const auto index = static_cast<size_t>(device.index);
  if (known.size() <= index) known.resize(index + 1);
  if (known[index].compute_capability == 0) {
    const cuda::DeviceProperties properties = cuda::Properties(device);
    known[index] = {.compute_capability = properties.compute_capability,
                    .multiprocessors = properties.multiprocessors};
  }
  return known[index];
}

// True if a matrix-unit kernel supports these arguments: rows in whole 16-byte chunks, a supported
// head size, and scale > 0, so that the largest product has the largest score. sm_75 supports only
// float16, and only what fits its 64 KiB of shared memory.
template <typename T>
bool TakesFlash(const AttentionArgs& args, bool backward, const Device& device) {
  if constexpr (sizeof(T) == 2) {
    const bool has_kernel = args.head_dim == 32 || args.head_dim == 64 || args.head_dim == 128;
    if (!has_kernel || !AreAligned(args, backward) || args.scale <= 0.0f) return false;
    const bool is_first_kind = std::is_same_v<T, Float16> && args.head_dim <= 64;
    return KindOf(device).compute_capability >= (is_first_kind ? 75 : 80);
  } else {
    return false;
  }
}

bool TakesWarpgroups(const Device& device) {
  return CurrentAttentionEngine() == AttentionEngine::kWarpgroups && HasWarpgroupKernels(device);
}

template <int kRowTiles>
inline constexpr int kFlashForwardRows = (kFlashWarps * 16) * kRowTiles;

template <typename T, int kDim, int kRowTiles, bool kDropout, bool kWindow>
void FlashForward(const AttentionArgs& args, Stream& stream) {
  Launch(FlashAttentionForwardKernel<T, kDim, kRowTiles, kDropout, kWindow>,
         ShapeOf(args, args.max_queries, kFlashForwardRows<kRowTiles>, kFlashThreads,
                 FlashForwardSharedBytes<kDim, kRowTiles>()),
         args, stream);
}

template <typename T, int kDim, bool kDropout, bool kWindow>
void FlashForwardOfDim(const AttentionArgs& args, Stream& stream) {
  if constexpr (kDim == kWarpgroupDim && !kWindow) {
    if (TakesWarpgroups(stream.device())) {
      return Launch(
          WarpgroupAttentionForwardKernel<T, kDropout>,
          ShapeOf(args, args.max_queries, kFlashTile, kFlashThreads, FlashSharedBytes<kDim>()),
          args, stream);
    }
  }
  // 128 queries per block halve the reads of K and V. They are used if sequences are long enough,
  // the data fits into registers, and there are enough blocks for all multiprocessors. (With a
  // window, more of the streamed keys would be outside of a query's window.)
  if constexpr (kDim <= 64 && !kDropout && !kWindow) {
    if (args.max_queries > kFlashForwardRows<1> &&
        BlocksOf(args, args.max_queries, kFlashForwardRows<2>) >=
            2 * KindOf(stream.device()).multiprocessors) {
      return FlashForward<T, kDim, 2, kDropout, kWindow>(args, stream);
    }
  }
  FlashForward<T, kDim, 1, kDropout, kWindow>(args, stream);
}

template <typename T, int kDim, bool kDropout, bool kWindow>
void FlashBackwardOfDim(const AttentionArgs& args, Stream& stream) {
  if constexpr (kDim <= 64 && !kWindow) {
    if (std::max(args.max_keys, args.max_queries) <= kRowKernelRows &&
        KindOf(stream.device()).compute_capability >= 80) {
      using Row = RowBackwardTraits<T, kDim, kDropout>;
      return Launch(
          RowAttentionBackwardKernel<Row>,
          ShapeOf(args, kRowKernelRows, kRowKernelRows, kRowKernelThreads, Row::kSharedBytes), args,
          stream);
    }
  }
  if constexpr (kDim == kWarpgroupDim && !kWindow) {
    if (TakesWarpgroups(stream.device())) {
      using OwnQueries = WarpgroupBackwardTraits<T, false, kDropout>;
      using OwnKeys = WarpgroupBackwardTraits<T, true, kDropout>;
      Launch(FlashAttentionBackwardKernel<OwnQueries>,
             ShapeOf(args, args.max_queries, kFlashTile, kFlashThreads, OwnQueries::kSharedBytes),
             args, stream);
      return Launch(FlashAttentionBackwardKernel<OwnKeys>,
                    ShapeOf(args, args.max_keys, kFlashTile, kFlashThreads, OwnKeys::kSharedBytes),
                    args, stream);
    }
  }
  using OwnQueries = FlashBackwardTraits<T, kDim, false, kDropout, kWindow>;
  using OwnKeys = FlashBackwardTraits<T, kDim, true, kDropout, kWindow>;
  Launch(FlashAttentionBackwardKernel<OwnQueries>,
         ShapeOf(args, args.max_queries, kFlashTile, kFlashThreads, OwnQueries::kSharedBytes), args,
         stream);
  Launch(FlashAttentionBackwardKernel<OwnKeys>,
         ShapeOf(args, args.max_keys, kFlashTile, kFlashThreads, OwnKeys::kSharedBytes), args,
         stream);
}

// Calls body.operator()<kWindow>() for the arguments.
template <typename Body>
void WithWindow(const AttentionArgs& args, const Body& body) {
  if (args.window > 0) return body.template operator()<true>();
  body.template operator()<false>();
}

// Calls body.operator()<kDim, kDropout, kWindow>() for the arguments.
template <typename Body>
void DispatchFlash(const AttentionArgs& args, const Body& body) {
  const auto with_dim = [&]<bool kDropout, bool kWindow>() {
    if (args.head_dim == 32) return body.template operator()<32, kDropout, kWindow>();
    if (args.head_dim == 64) return body.template operator()<64, kDropout, kWindow>();
    body.template operator()<128, kDropout, kWindow>();
  };
  WithWindow(args, [&]<bool kWindow>() {
    if (args.dropout_threshold != 0) return with_dim.template operator()<true, kWindow>();
    with_dim.template operator()<false, kWindow>();
  });
}

template <typename T>
void NativeForward(const AttentionArgs& host_args, Stream& stream) {
  const AttentionArgs args = PutOnDevice(host_args, 0, stream).args;
  if (TakesFlash<T>(args, false, stream.device())) {
    if constexpr (sizeof(T) == 2) {
      DispatchFlash(args, [&]<int kDim, bool kDropout, bool kWindow>() {
        FlashForwardOfDim<T, kDim, kDropout, kWindow>(args, stream);
      });
    }
    return;
  }
  WithWindow(args, [&]<bool kWindow>() { PlainForward<T, kWindow>(args, stream); });
}

template <typename T>
void NativeBackward(const AttentionArgs& host_args, Stream& stream) {
  const int64_t deltas =
      host_args.query_offsets[host_args.sequences] * int64_t{host_args.num_heads};
  auto [args, scratch] =
      PutOnDevice(host_args, static_cast<size_t>(deltas) * sizeof(float), stream);
  args.delta = reinterpret_cast<float*>(scratch);
  if (TakesFlash<T>(args, true, stream.device())) {
    if constexpr (sizeof(T) == 2) {
      DispatchFlash(args, [&]<int kDim, bool kDropout, bool kWindow>() {
        FlashBackwardOfDim<T, kDim, kDropout, kWindow>(args, stream);
      });
    }
    return;
  }
  WithWindow(args, [&]<bool kWindow>() { PlainBackward<T, kWindow>(args, stream); });
}

template <typename T>
void Run(const AttentionArgs& args, bool backward, Stream& stream) {
  DT_CHECK_LE(args.head_dim, kPlainMaxDim)
      << "attention on a GPU supports a head_dim of at most 256";
  const auto native = [&] {
    backward ? NativeBackward<T>(args, stream) : NativeForward<T>(args, stream);
  };
  if (!RunFusedAttention(args, kDTypeOf<T>, backward, native, stream)) native();
}

}  // namespace

bool HasWarpgroupKernels([[maybe_unused]] const Device& device) {
#if defined(DTRAIN_WITH_WARPGROUPS) || !defined(__CUDACC__)
  constexpr int kHopper = 90;
  return KindOf(device).compute_capability == kHopper;
#else
  return false;
#endif
}

AttentionOnDevice PutOnDevice(const AttentionArgs& host_args, size_t bytes, Stream& stream) {
  constexpr size_t kAlignment = 256;
  const auto count = static_cast<size_t>(host_args.sequences) + 1;
  const bool has_offsets = host_args.device_query_offsets != nullptr;
  const size_t offset_bytes = has_offsets ? 0 : 2 * count * sizeof(int32_t);
  const size_t begin = (offset_bytes + kAlignment - 1) / kAlignment * kAlignment;
  AttentionOnDevice result{host_args, nullptr};
  result.args.query_offsets = host_args.device_query_offsets;
  result.args.key_offsets = host_args.device_key_offsets;
  if (begin + bytes == 0) return result;
  std::byte* const scratch = stream.Scratch(begin + bytes, "attention");
  if (bytes > 0) result.scratch = scratch + begin;
  if (has_offsets) return result;
  std::vector<int32_t> offsets(host_args.query_offsets, host_args.query_offsets + count);
  offsets.insert(offsets.end(), host_args.key_offsets, host_args.key_offsets + count);
  CopyToDevice(scratch, offsets.data(), offset_bytes, stream);
  result.args.query_offsets = reinterpret_cast<const int32_t*>(scratch);
  result.args.key_offsets = result.args.query_offsets + count;
  return result;
}

template <typename T>
void AttentionForwardKernelCuda(const AttentionArgs& args, Stream& stream) {
  Run<T>(args, false, stream);
}

template <typename T>
void AttentionBackwardKernelCuda(const AttentionArgs& args, Stream& stream) {
  Run<T>(args, true, stream);
}

template void AttentionForwardKernelCuda<float>(const AttentionArgs&, Stream&);
template void AttentionForwardKernelCuda<BFloat16>(const AttentionArgs&, Stream&);
template void AttentionForwardKernelCuda<Float16>(const AttentionArgs&, Stream&);
template void AttentionBackwardKernelCuda<float>(const AttentionArgs&, Stream&);
template void AttentionBackwardKernelCuda<BFloat16>(const AttentionArgs&, Stream&);
template void AttentionBackwardKernelCuda<Float16>(const AttentionArgs&, Stream&);

}  // namespace dtrain
