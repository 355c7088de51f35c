// classification_loss_cuda.cu - loss, prediction and gradient of a row, computed by one warp.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/classification_loss_kernel.h"

namespace dtrain {
namespace {

constexpr int kLossThreads = 128;
constexpr int kLossRows = kLossThreads / kWarpSize;  // rows per block

struct FloatMax {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// The values that all lanes of a warp share for their row.
struct LossRow {
  const float* logits;
  const float* targets;
  float* probabilities;  // may be null
  float* d_logits;       // may be null
  float weight;          // weight of the row
  float gradient;        // weight * scale
};

__device__ __forceinline__ float OutputWeight(const ClassificationLossArgs& args, int64_t c) {
  return args.output_weights == nullptr ? 1.0f : args.output_weights[c];
}

__device__ __forceinline__ void WriteLoss(const ClassificationLossArgs& args, int64_t r,
                                          float weighted, float unweighted) {
  if (threadIdx.x % kWarpSize != 0) return;
  args.loss[r] = weighted;
  args.unweighted[r] = unweighted;
}

__device__ __forceinline__ void SoftmaxRow(const ClassificationLossArgs& args, const LossRow& row,
                                           int64_t r) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  float max = -INFINITY;
  for (int64_t c = lane; c < args.outputs; c += kWarpSize) max = fmaxf(max, row.logits[c]);
  max = WarpReduce(max, FloatMax{});
  float sum = 0.0f;
  for (int64_t c = lane; c < args.outputs; c += kWarpSize) sum += expf(row.logits[c] - max);
  sum = WarpSum(sum);
  const bool known = row.targets[0] >= 0.0f;
  const int64_t target = known ? static_cast<int64_t>(row.targets[0]) : 0;
  // A class above the last one is a bug of the caller; it shows as a loss of NaN.
  const bool exists = target < args.outputs;
  const float at_target = exists ? row.logits[target] : NAN;
  const float of_class = exists ? OutputWeight(args, target) : 0.0f;
  const float nll = known ? max + logf(sum) - at_target : 0.0f;
  const float factor = known ? row.gradient * of_class : 0.0f;
  const float inverse = 1.0f / sum;
  // Every lane must have read the target's logit before any lane overwrites it.
  __syncwarp(kFullWarp);
  for (int64_t c = lane; c < args.outputs; c += kWarpSize) {
    const float p = expf(row.logits[c] - max) * inverse;
    if (row.probabilities != nullptr) row.probabilities[c] = p;
    if (row.d_logits != nullptr) row.d_logits[c] = (p - (c == target ? 1.0f : 0.0f)) * factor;
  }
  WriteLoss(args, r, row.weight * of_class * nll, nll);
}

__device__ __forceinline__ void PointwiseRow(const ClassificationLossArgs& args, const LossRow& row,
                                             int64_t r) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const bool squared = args.kind == ClassificationLossKind::kMeanSquared;
  const float inverse = 1.0f / static_cast<float>(args.outputs);
  float weighted = 0.0f;
  float unweighted = 0.0f;
  for (int64_t c = lane; c < args.outputs; c += kWarpSize) {
    const float z = row.logits[c];
    const float y = row.targets[c];
    const float v = OutputWeight(args, c);
    const float e = expf(-fabsf(z));
    const float p = squared ? z : (z < 0.0f ? e : 1.0f) / (1.0f + e);
    float loss = squared ? (z - y) * (z - y) : fmaxf(z, 0.0f) - z * y + log1pf(e);
    float d = squared ? 2.0f * (z - y) : p - y;
    if (isnan(y)) loss = d = 0.0f;
    weighted += v * loss;
    unweighted += loss;
    if (row.probabilities != nullptr) row.probabilities[c] = p;
    if (row.d_logits != nullptr) row.d_logits[c] = d * v * (row.gradient * inverse);
  }
  WriteLoss(args, r, row.weight * inverse * WarpSum(weighted), inverse * WarpSum(unweighted));
}

/// Loss, p and scale * d loss / d z of a row, as defined in ops/classification_loss.h.
/// Geometry: a warp per row, 4 rows per block; a lane handles every 32nd output.
/// Traffic: 4 * rows * (outputs read twice, targets, outputs written twice). Batches have some
///   hundred rows with a few outputs, so the launch dominates the time (model). scale is read from
///   device memory, so the host does not wait for it.
__global__ __launch_bounds__(kLossThreads) void ClassificationLossKernelGpu(
    ClassificationLossArgs args) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kLossRows + threadIdx.x / kWarpSize;
  if (r >= args.row_end) return;
  const bool softmax = args.kind == ClassificationLossKind::kSoftmax;
  const int64_t outputs = args.outputs;
  const float weight = args.weights == nullptr ? 1.0f : args.weights[r];
  const LossRow row = {args.logits + r * outputs,
                       args.targets + r * (softmax ? 1 : outputs),
                       args.probabilities == nullptr ? nullptr : args.probabilities + r * outputs,
                       args.d_logits == nullptr ? nullptr : args.d_logits + r * outputs,
                       weight,
                       weight * *args.scale};
  if (softmax) {
    SoftmaxRow(args, row, r);
  } else {
    PointwiseRow(args, row, r);
  }
}

}  // namespace

void ClassificationLossKernelCuda(const ClassificationLossArgs& args, Stream& stream) {
  Launch(ClassificationLossKernelGpu,
         {.blocks = {(args.row_end + kLossRows - 1) / kLossRows}, .threads = kLossThreads}, args,
         stream);
}

}  // namespace dtrain
