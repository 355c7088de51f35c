// adam_cuda.cu - updates each parameter with one read and one write of its state.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "dtrain/device/cuda/packed.cuh"
#include "dtrain/ops/internal/adam_kernel.h"

namespace dtrain {
namespace {

constexpr int kAdamThreads = 256;
constexpr int kAdamPack = 4;   // elements: 16 bytes of float
constexpr int kAdamPacks = 2;  // packs per thread, loaded together: 128 bytes in flight

struct AdamGpuArgs {
  AdamArgs op;
  int64_t head;  // elements before the first aligned pack
};

// The values of AdamStep in the form the update uses, in registers.
struct AdamFactors {
  float gradient, learning_rate;
  float m_correction;       // 1 / bias_correction1
  float root_v_correction;  // 1 / sqrt(bias_correction2)
};

struct AdamState {
  float w, m, v;
};

// Fused multiply-adds are written explicitly. If the compiler chose them, it could choose
// differently in each loop, and a weight's bits would depend on its position in the grid.
__device__ __forceinline__ AdamState UpdateOne(const AdamOptions& o, const AdamFactors& by,
                                               float gradient, AdamState s) {
  const float g = __fmaf_rn(s.w, o.l2, gradient * by.gradient);
  s.m = __fmaf_rn(s.m, o.beta1, g * (1.0f - o.beta1));
  s.v = __fmaf_rn(s.v, o.beta2, g * g * (1.0f - o.beta2));
  const float root = __fmaf_rn(sqrtf(s.v), by.root_v_correction, o.epsilon);
  const float step = s.m * by.m_correction / root;
  s.w = __fmaf_rn(-by.learning_rate, __fmaf_rn(s.w, o.weight_decay, step), s.w);
  return s;
}

// Updates kCount packs of N elements, `stride` apart. All are loaded before the first is stored.
template <typename T, int N, int kCount>
__device__ __forceinline__ void UpdatePacks(const AdamGpuArgs& args, const AdamFactors& by,
                                            int64_t first, int64_t stride) {
  Packed<float, N> g[kCount], w[kCount], m[kCount], v[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int64_t at = first + i * stride;
    g[i] = LoadPacked<N>(args.op.gradients + at);
    w[i] = LoadPacked<N>(args.op.weights + at);
    m[i] = LoadPacked<N>(args.op.m + at);
    v[i] = LoadPacked<N>(args.op.v + at);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int64_t at = first + i * stride;
    Packed<T, N> copy;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const AdamState s = UpdateOne(args.op.options, by, g[i][j], {w[i][j], m[i][j], v[i][j]});
      w[i].values[j] = s.w;
      m[i].values[j] = s.m;
      v[i].values[j] = s.v;
      copy.Set(j, s.w);
    }
    StorePacked(args.op.weights + at, w[i]);
    StorePacked(args.op.m + at, m[i]);
    StorePacked(args.op.v + at, v[i]);
    if (args.op.copy != nullptr) StorePacked(static_cast<T*>(args.op.copy) + at, copy);
  }
}

/// Adam, the equations of ops/adam.h, all in float.
/// Geometry: 256 threads per block; each handles kAdamPacks packs, one block width apart. The first
///   threads of the grid also handle the up to 3 + 3 elements before and after the aligned packs.
/// Traffic: 28 bytes per parameter (gradient read; weight, m and v read and written; 4 bytes each),
///   plus sizeof(T) for the copy; nothing if the step is skipped. Time is at least bytes / memory
///   bandwidth (model).
/// kPack == 1 handles tensors with different alignments.
template <typename T, int kPack>
__global__ __launch_bounds__(kAdamThreads) void AdamKernelGpu(AdamGpuArgs args) {
  const AdamStep now = *args.op.step;
  if (now.skip != 0.0f) return;
  const AdamFactors by = {.gradient = now.gradient_scale,
                          .learning_rate = now.learning_rate,
                          .m_correction = 1.0f / now.bias_correction1,
                          .root_v_correction = 1.0f / sqrtf(now.bias_correction2)};
  const int64_t whole = args.head + (args.op.end - args.head) / kPack * kPack;
  const int64_t block = static_cast<int64_t>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  constexpr int64_t kStride = int64_t{kAdamThreads} * kPack;
  const int64_t first = args.head + block * kStride * kAdamPacks + thread * kPack;
  if (first + (kAdamPacks - 1) * kStride < whole) {
    UpdatePacks<T, kPack, kAdamPacks>(args, by, first, kStride);
  } else {
#pragma unroll 1  // the loop runs fewer than kAdamPacks times
    for (int64_t at = first; at < whole; at += kStride) {
      UpdatePacks<T, kPack, 1>(args, by, at, 0);
    }
  }
  if (kPack > 1 && block == 0 && thread < 2 * kPack) {
    // Thread j < kPack handles element j of the head; thread kPack + j handles element j of the
    // tail.
    const int64_t at = thread < kPack ? thread : whole + thread - kPack;
    if (at < (thread < kPack ? args.head : args.op.end)) {
      UpdatePacks<T, 1, 1>(args, by, at, 0);
    }
  }
}

// Number of elements from `data` to the next address aligned to `pack` elements.
int64_t HeadOf(const void* data, size_t element_size, size_t pack) {
  const size_t past = reinterpret_cast<uintptr_t>(data) / element_size % pack;
  return static_cast<int64_t>((pack - past) % pack);
}

}  // namespace

template <typename T>
void AdamKernelCuda(const AdamArgs& op, Stream& stream) {
  AdamGpuArgs args = {.op = op, .head = 0};
  // Ranges of a flat arena may begin anywhere, but at the same offset in all arenas.
  const int64_t head = HeadOf(op.weights, sizeof(float), kAdamPack);
  const auto alike = [&](const float* data) {
    return HeadOf(data, sizeof(float), kAdamPack) == head;
  };
  const bool packed = alike(op.gradients) && alike(op.m) && alike(op.v) &&
                      (op.copy == nullptr || HeadOf(op.copy, sizeof(T), kAdamPack) == head);
  if (packed) args.head = std::min(head, op.end);
  const int64_t per_block = int64_t{kAdamThreads} * kAdamPacks * (packed ? kAdamPack : 1);
  Launch(packed ? AdamKernelGpu<T, kAdamPack> : AdamKernelGpu<T, 1>,
         {.blocks = {(op.end + per_block - 1) / per_block}, .threads = kAdamThreads}, args, stream);
}

template void AdamKernelCuda<float>(const AdamArgs&, Stream&);
template void AdamKernelCuda<BFloat16>(const AdamArgs&, Stream&);
template void AdamKernelCuda<Float16>(const AdamArgs&, Stream&);

}  // namespace dtrain
