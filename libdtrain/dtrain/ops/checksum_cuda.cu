// checksum_cuda.cu - the checksum on the GPU: one partial sum per block, then one block adds them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "dtrain/device/cuda/reduce.cuh"
#include "dtrain/ops/internal/checksum_kernel.h"

namespace dtrain {
namespace {

constexpr int kChecksumThreads = 256;

struct ChecksumBlocksArgs {
  const float* x = nullptr;
  int64_t elements = 0;
  uint64_t* partials = nullptr;  // [blocks]
};

// partials[block] = sum over the block's i of bits(x[i]) * (2 i + 1). Traffic: x once.
__global__ void __launch_bounds__(kChecksumThreads) ChecksumBlocksKernel(ChecksumBlocksArgs args) {
  uint64_t sum = 0;
  const int64_t step = int64_t{gridDim.x} * kChecksumThreads;
  // Keeps four loads in flight.
#pragma unroll 4
  for (int64_t i = int64_t{blockIdx.x} * kChecksumThreads + threadIdx.x; i < args.elements;
       i += step) {
    sum += __float_as_uint(args.x[i]) * (2 * static_cast<uint64_t>(i) + 1);
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) args.partials[blockIdx.x] = sum;
}

struct FinishChecksumArgs {
  const uint64_t* partials = nullptr;  // [blocks]
  int64_t blocks = 0;
  int64_t* sum = nullptr;
};

__global__ void __launch_bounds__(kChecksumThreads) FinishChecksumKernel(FinishChecksumArgs args) {
  uint64_t sum = 0;
  for (int64_t i = threadIdx.x; i < args.blocks; i += kChecksumThreads) sum += args.partials[i];
  sum = BlockSum(sum);
  if (threadIdx.x == 0) *args.sum = static_cast<int64_t>(sum);
}

}  // namespace

void ChecksumKernelCuda(const ChecksumArgs& args, Stream& stream) {
  constexpr int64_t kMaxBlocks = 8 * 132;  // as in column_tiles.cuh
  constexpr int64_t kPerBlock = 4 * kChecksumThreads;
  const int64_t blocks =
      std::clamp<int64_t>((args.elements + kPerBlock - 1) / kPerBlock, 1, kMaxBlocks);
  auto* const partials = reinterpret_cast<uint64_t*>(
      stream.Scratch(static_cast<size_t>(blocks) * sizeof(uint64_t), "checksum"));
  Launch(ChecksumBlocksKernel, {.blocks = {blocks}, .threads = kChecksumThreads},
         ChecksumBlocksArgs{.x = args.x, .elements = args.elements, .partials = partials}, stream);
  Launch(FinishChecksumKernel, {.blocks = {1}, .threads = kChecksumThreads},
         FinishChecksumArgs{.partials = partials, .blocks = blocks, .sum = args.sum}, stream);
}

}  // namespace dtrain
