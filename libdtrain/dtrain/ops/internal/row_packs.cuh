// row_packs.cuh - reads a row with all threads of a block: 16 bytes per access, several in flight.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_ROW_PACKS_CUH_
#define DTRAIN_OPS_INTERNAL_ROW_PACKS_CUH_

#include <algorithm>

#include "dtrain/device/cuda/packed.cuh"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// True if every row begins at a multiple of `bytes`, or the matrix is absent.
template <typename T>
inline bool RowsAligned(const Rows& rows, int64_t bytes = 16) {
  return reinterpret_cast<uintptr_t>(rows.data) % static_cast<uintptr_t>(bytes) == 0 &&
         rows.stride * static_cast<int64_t>(sizeof(T)) % bytes == 0;
}

template <typename T>
__device__ __forceinline__ T* RowAt(const Rows& rows, int64_t r) {
  return static_cast<T*>(rows.data) + r * rows.stride;
}

// Number of threads for a block that reads a row of `packs` packs, at most `limit`.
inline int ThreadsFor(int64_t packs, int limit) {
  const int64_t warps = (packs + kWarpSize - 1) / kWarpSize;
  return static_cast<int>(std::clamp<int64_t>(warps * kWarpSize, kWarpSize, limit));
}

// Calls `use` for all elements of a row, each in one thread of the block, in packs of N:
//   use(const Packed<T, N or 1> (&packs)[kPacks or 1], int column, int step)
// packs[i] begins at column + i * step. All packs of a call are loaded before the call, so `use`
// may overwrite them, and the loads are in flight together. N > 1 needs an aligned row. Columns
// that do not fill a pack come one by one.
template <int kPacks, int N, typename T, typename Use>
__device__ __forceinline__ void ForPacks(const T* row, int columns, const Use& use) {
  const int threads = static_cast<int>(blockDim.x);
  const int step = threads * N;
  const int whole = columns / N * N;
  int c = static_cast<int>(threadIdx.x) * N;
  for (; c + (kPacks - 1) * step < whole; c += kPacks * step) {
    Packed<T, N> packs[kPacks];
#pragma unroll
    for (int i = 0; i < kPacks; ++i) packs[i] = LoadPacked<N>(row + c + i * step);
    use(packs, c, step);
  }
  for (; c < whole; c += step) {
    const Packed<T, N> packs[1] = {LoadPacked<N>(row + c)};
    use(packs, c, step);
  }
  if constexpr (N > 1) {
    c = whole + static_cast<int>(threadIdx.x);
    if (c < columns) {
      const Packed<T, 1> packs[1] = {LoadPacked<1>(row + c)};
      use(packs, c, step);
    }
  }
}

// Stores N floats as T: in one access if they fill at most 16 bytes, otherwise in several of 16.
template <typename T, int N>
__device__ __forceinline__ void StoreFloats(T* target, const float (&values)[N]) {
  constexpr int kPack = N < kPackedSize<T> ? N : kPackedSize<T>;
#pragma unroll
  for (int begin = 0; begin < N; begin += kPack) {
    Packed<T, kPack> pack;
#pragma unroll
    for (int i = 0; i < kPack; ++i) pack.Set(i, values[begin + i]);
    StorePacked(target + begin, pack);
  }
}

template <typename T, int N>
__device__ __forceinline__ void LoadFloats(const T* source, float (&values)[N]) {
  constexpr int kPack = N < kPackedSize<T> ? N : kPackedSize<T>;
#pragma unroll
  for (int begin = 0; begin < N; begin += kPack) {
    const Packed<T, kPack> pack = LoadPacked<kPack>(source + begin);
#pragma unroll
    for (int i = 0; i < kPack; ++i) values[begin + i] = pack[i];
  }
}

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_ROW_PACKS_CUH_
