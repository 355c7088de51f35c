// lamb_cuda.cu - four launches for all tensors: moments and norms, sums, trust ratios, weights.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "dtrain/device/cuda/packed.cuh"
#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/lamb_kernel.h"

namespace dtrain {
namespace {

constexpr int kLambThreads = 256;
constexpr int kLambPack = 4;  // elements: 16 bytes of float

// Calls body.operator()<N>(at) for aligned packs of kPack elements, and with N = 1 for the elements
// of [begin, end) outside of them: up to three at each end.
template <int kPack, typename Body>
__device__ __forceinline__ void ForPacks(const LambChunk& chunk, const Body& body) {
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t aligned = (chunk.begin + kPack - 1) / kPack * kPack;
  const int64_t first = aligned < chunk.end ? aligned : chunk.end;
  const int64_t last = first + (chunk.end - first) / kPack * kPack;
  for (int64_t at = first + thread * kPack; at < last; at += kLambThreads * kPack) {
    body.template operator()<kPack>(at);
  }
  if (kPack > 1 && thread < 2 * kPack) {
    // Thread j < kPack handles element j of the head; thread kPack + j handles element j of the
    // tail.
    const int64_t at = thread < kPack ? chunk.begin + thread : last + thread - kPack;
    if (at < (thread < kPack ? first : chunk.end)) body.template operator()<1>(at);
  }
}

/// m, v and u of ops/lamb.h, and for each chunk the sums of w^2 and u^2. One block per chunk. Like
/// the other kernels, it does nothing if the step is skipped.
/// Traffic: 28 bytes per parameter (gradient, weight, m, v read; m, v, u written); u overwrites the
///   gradient.
/// Sums are in float within a thread (32 elements) and a block, and in double beyond.
template <int kPack>
__global__ __launch_bounds__(kLambThreads) void LambMomentsKernelGpu(LambArgs args) {
  const LambOptions& o = args.options;
  const LambChunk chunk = args.chunks[blockIdx.x];
  const float decay = args.decays[chunk.segment];
  const AdamStep now = *args.step;
  if (now.skip != 0.0f) return;
  const float scale = now.gradient_scale;
  const int64_t shift = chunk.moments - chunk.begin;  // one for both: registers are scarce here
  const float m_correction = 1.0f / now.bias_correction1;
  const float root_v_correction = 1.0f / sqrtf(now.bias_correction2);
  float weight_squares = 0.0f;
  float update_squares = 0.0f;
  ForPacks<kPack>(chunk, [&]<int N>(int64_t at) {
    Packed<float, N> g = LoadPacked<N>(args.gradients + at);
    const Packed<float, N> w = LoadPacked<N>(args.weights + at);
    Packed<float, N> m = LoadPacked<N>(args.m + (at + shift));
    Packed<float, N> v = LoadPacked<N>(args.v + (at + shift));
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float gradient = g[j] * scale;
      m.values[j] = m[j] * o.beta1 + gradient * (1.0f - o.beta1);
      v.values[j] = v[j] * o.beta2 + gradient * gradient * (1.0f - o.beta2);
      const float u =
          m[j] * m_correction / (sqrtf(v[j]) * root_v_correction + o.epsilon) + w[j] * decay;
      g.values[j] = u;
      weight_squares += w[j] * w[j];
      update_squares += u * u;
    }
    StorePacked(args.m + (at + shift), m);
    StorePacked(args.v + (at + shift), v);
    StorePacked(args.gradients + at, g);
  });
  const float weights = BlockSum(weight_squares);
  const float updates = BlockSum(update_squares);
  if (threadIdx.x == 0) {
    args.squares[2 * blockIdx.x] = static_cast<double>(weights);
    args.squares[2 * blockIdx.x + 1] = static_cast<double>(updates);
  }
}

/// The sums of w^2 and u^2 of a segment; one block per segment. Traffic: 16 bytes per chunk.
__global__ __launch_bounds__(kLambThreads) void LambSumsKernelGpu(LambArgs args) {
  if (args.step->skip != 0.0f) return;
  const LambSegmentInfo segment = args.segments[blockIdx.x];
  double weights = 0.0;
  double updates = 0.0;
  for (int64_t i = threadIdx.x; i < segment.chunks; i += kLambThreads) {
    const int64_t chunk = segment.first_chunk + i;
    weights += args.squares[2 * chunk];
    updates += args.squares[2 * chunk + 1];
  }
  weights = BlockSum(weights);
  updates = BlockSum(updates);
  if (threadIdx.x == 0) {
    args.sums[2 * blockIdx.x] = weights;
    args.sums[2 * blockIdx.x + 1] = updates;
  }
}

/// r of ops/lamb.h; one thread per segment. Traffic: 20 bytes per segment.
__global__ __launch_bounds__(kLambThreads) void LambRatiosKernelGpu(LambArgs args) {
  const int64_t s = int64_t{blockIdx.x} * kLambThreads + threadIdx.x;
  if (s >= args.num_segments || args.step->skip != 0.0f) return;
  const double weights = args.sums[2 * s];
  const double updates = args.sums[2 * s + 1];
  const bool adapts = args.segments[s].adapts != 0 && weights > 0.0 && updates > kSmallestSquares;
  args.ratios[s] = adapts ? static_cast<float>(sqrt(weights / updates)) : 1.0f;
}

/// w -= lr r u; one block per chunk. Traffic: 12 bytes per parameter, plus sizeof(T) for the copy.
template <typename T, int kPack>
__global__ __launch_bounds__(kLambThreads) void LambWeightsKernelGpu(LambArgs args) {
  if (args.step->skip != 0.0f) return;
  const LambChunk chunk = args.chunks[blockIdx.x];
  const float rate = args.step->learning_rate * args.ratios[chunk.segment];
  ForPacks<kPack>(chunk, [&]<int N>(int64_t at) {
    const Packed<float, N> u = LoadPacked<N>(args.gradients + at);
    Packed<float, N> w = LoadPacked<N>(args.weights + at);
    Packed<T, N> copy;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      w.values[j] = w[j] - u[j] * rate;
      copy.Set(j, w[j]);
    }
    StorePacked(args.weights + at, w);
    if (args.copy != nullptr) StorePacked(static_cast<T*>(args.copy) + at, copy);
  });
}

template <typename T>
bool StartsPack(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % (kLambPack * sizeof(T)) == 0;
}

// None for a rank that has no part of any tensor: then nothing is launched.
LaunchShape BlockPerChunk(const LambArgs& args) {
  return {.blocks = {args.num_chunks}, .threads = kLambThreads};
}

}  // namespace

// Arenas start aligned, and so do the parts of a shard. Views that do not are processed element by
// element.
void LambMomentsCuda(const LambArgs& args, Stream& stream) {
  const bool packed = args.has_even_moments && StartsPack<float>(args.gradients) &&
                      StartsPack<float>(args.weights) && StartsPack<float>(args.m) &&
                      StartsPack<float>(args.v);
  if (packed) {
    Launch(LambMomentsKernelGpu<kLambPack>, BlockPerChunk(args), args, stream);
  } else {
    Launch(LambMomentsKernelGpu<1>, BlockPerChunk(args), args, stream);
  }
  Launch(LambSumsKernelGpu, {.blocks = {args.num_segments}, .threads = kLambThreads}, args, stream);
}

template <typename T>
void LambWeightsCuda(const LambArgs& args, Stream& stream) {
  const int64_t blocks = (args.num_segments + kLambThreads - 1) / kLambThreads;
  Launch(LambRatiosKernelGpu, {.blocks = {blocks}, .threads = kLambThreads}, args, stream);
  const bool packed = StartsPack<float>(args.gradients) && StartsPack<float>(args.weights) &&
                      StartsPack<T>(args.copy);
  if (packed) {
    Launch(LambWeightsKernelGpu<T, kLambPack>, BlockPerChunk(args), args, stream);
  } else {
    Launch(LambWeightsKernelGpu<T, 1>, BlockPerChunk(args), args, stream);
  }
}

template void LambWeightsCuda<float>(const LambArgs&, Stream&);
template void LambWeightsCuda<BFloat16>(const LambArgs&, Stream&);
template void LambWeightsCuda<Float16>(const LambArgs&, Stream&);

}  // namespace dtrain
