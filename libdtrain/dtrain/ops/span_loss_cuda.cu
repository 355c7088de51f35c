// span_loss_cuda.cu - loss and gradient of one side of a sequence, computed by one warp.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/span_loss_kernel.h"

namespace dtrain {
namespace {

constexpr int kSpanThreads = 128;
constexpr int kSpanRows = kSpanThreads / kWarpSize;  // rows per block

struct SpanMax {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// loss = -log p[target] / sides and scale * d loss / d z, with p = softmax(z) over a sequence's
/// tokens.
/// Geometry: a warp per side and sequence, 4 of them per block; a lane handles every 32nd token.
/// Traffic: 4 * sides * (tokens read three times, all but once from the L1 cache, and written
///   once). For 32 sequences of 384 tokens this is 0.2 MB, so the launch dominates the time
///   (model). scale is read from device memory, so the host does not wait for it.
__global__ __launch_bounds__(kSpanThreads) void SpanLossKernelGpu(SpanLossArgs args) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kSpanRows + threadIdx.x / kWarpSize;
  if (r >= args.row_end) return;
  const int64_t s = r % args.sequences;
  const int64_t first = r / args.sequences * args.tokens + args.offsets[s];
  const int tokens = args.offsets[s + 1] - args.offsets[s];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const float* const logits = args.logits + first;
  float max = -INFINITY;
  for (int t = lane; t < tokens; t += kWarpSize) max = fmaxf(max, logits[t]);
  max = WarpReduce(max, SpanMax{});
  float sum = 0.0f;
  for (int t = lane; t < tokens; t += kWarpSize) sum += expf(logits[t] - max);
  sum = WarpSum(sum);
  const int target = args.targets[r];
  const bool known = target >= 0;
  // A target after the last token is a bug of the caller; it shows as a loss of NaN.
  const float at_target = target < tokens ? (known ? logits[target] : 0.0f) : NAN;
  const float loss = known ? max + logf(sum) - at_target : 0.0f;
  // Every lane must have read the target's score before any lane overwrites it.
  __syncwarp(kFullWarp);
  if (args.d_logits != nullptr) {
    const float factor = known ? args.share * *args.scale : 0.0f;
    const float of_token = factor / sum;
    for (int t = lane; t < tokens; t += kWarpSize) {
      const float p = expf(logits[t] - max) * of_token;
      args.d_logits[first + t] = t == target ? p - factor : p;
    }
  }
  if (lane == 0) args.loss[r] = args.share * loss;
}

}  // namespace

void SpanLossKernelCuda(const SpanLossArgs& args, Stream& stream) {
  Launch(SpanLossKernelGpu,
         {.blocks = {(args.row_end + kSpanRows - 1) / kSpanRows}, .threads = kSpanThreads}, args,
         stream);
}

}  // namespace dtrain
