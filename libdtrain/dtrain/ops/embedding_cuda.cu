// embedding_cuda.cu - starts the embedding's kernels: gather, sort, sums, sinusoids.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/check.h"
#include "dtrain/ops/internal/embedding_kernel.cuh"

namespace dtrain {
namespace {

// Tokens per sorted run, two per thread.
constexpr int kSortRun = 1024;
constexpr int kSortThreads = kSortRun / 2;

struct SortTokensArgs {
  const int32_t* ids;  // rows of the table, [tokens]
  TokenKey* runs;      // [runs, kSortRun], each sorted; the last one is padded with the largest key
  int64_t tokens;
};

/// Sorts kSortRun tokens by (row, token).
/// Geometry: a block per run; bitonic sort (Batcher 1968), 55 exchanges per thread in 8 KiB of
///   shared memory. Keys are unique, so the order is unique too.
/// Traffic: reads 4 and writes 8 bytes per token; most of the time goes to the barriers.
__global__ __launch_bounds__(kSortThreads) void SortTokensKernelGpu(SortTokensArgs args) {
  struct Run {
    TokenKey keys[kSortRun];
  };
  TokenKey* const keys = SharedStorage<Run>().keys;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kSortRun;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kSortRun; i += kSortThreads) {
    const int64_t t = first + i;
    keys[i] = t < args.tokens ? MakeTokenKey(args.ids[t], t) : ~TokenKey{0};
  }
  for (int sorted = 2; sorted <= kSortRun; sorted *= 2) {
    for (int stride = sorted / 2; stride > 0; stride /= 2) {
      __syncthreads();
      // This thread's pair is (low, low + stride), where bit `stride` of low is 0.
      const int low = 2 * thread - (thread & (stride - 1));
      const TokenKey a = keys[low];
      const TokenKey b = keys[low + stride];
      const bool upwards = (low & sorted) == 0;
      if ((a > b) == upwards) {
        keys[low] = b;
        keys[low + stride] = a;
      }
    }
  }
  __syncthreads();
  for (int i = thread; i < kSortRun; i += kSortThreads) args.runs[first + i] = keys[i];
}

constexpr int kMergeThreads = 128;

struct MergeRunsArgs {
  const TokenKey* runs;  // [run_count, kSortRun]
  TokenKey* order;       // [tokens]
  int64_t tokens;
  int run_count;
};

/// Merges the sorted runs: order[p] = key, where p is the number of smaller keys in all runs.
/// Geometry: a thread per key, ten dependent steps per run, all runs in the L1 cache.
__global__ __launch_bounds__(kMergeThreads) void MergeRunsKernelGpu(MergeRunsArgs args) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kMergeThreads + threadIdx.x;
  if (at >= static_cast<int64_t>(args.run_count) * kSortRun) return;
  const TokenKey key = args.runs[at];
  if (key == ~TokenKey{0}) return;  // padding of the last run
  const int own = static_cast<int>(at / kSortRun);
  int64_t place = at % kSortRun;
  for (int run = 0; run < args.run_count; ++run) {
    if (run == own) continue;
    const TokenKey* const keys = args.runs + static_cast<int64_t>(run) * kSortRun;
    int smaller = 0;
#pragma unroll
    for (int step = kSortRun / 2; step > 0; step /= 2) {
      smaller += keys[smaller + step - 1] < key ? step : 0;
    }
    smaller += keys[smaller] < key ? 1 : 0;
    place += smaller;
  }
  args.order[place] = key;
}

constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The parts of the stream's scratch memory that one gradient needs.
struct Workspace {
  TokenKey* runs;
  TokenKey* order;
  float* heads;
  float* tails;

  Workspace(int64_t tokens, int64_t columns, Stream& stream) {
    const int64_t run_keys = DivideUp(tokens, kSortRun) * kSortRun;
    const int64_t order_keys = DivideUp(tokens, kSumRun) * kSumRun;
    const int64_t sums = DivideUp(tokens, kSumRun) * columns;
    // Every size is a multiple of 16 bytes, so that every part is aligned.
    const int64_t sums_stride = DivideUp(sums, 4) * 4;
    const int64_t bytes = (run_keys + order_keys) * static_cast<int64_t>(sizeof(TokenKey)) +
                          2 * sums_stride * static_cast<int64_t>(sizeof(float));
    runs = reinterpret_cast<TokenKey*>(
        stream.Scratch(static_cast<size_t>(bytes), "embedding, backward"));
    order = runs + run_keys;
    heads = reinterpret_cast<float*>(order + order_keys);
    tails = heads + sums_stride;
  }
};

// Returns the tokens sorted by (row, token).
const TokenKey* SortTokens(const int32_t* rows, int64_t tokens, const Workspace& space,
                           Stream& stream) {
  const int64_t runs = DivideUp(tokens, kSortRun);
  Launch(SortTokensKernelGpu, {.blocks = {runs}, .threads = kSortThreads},
         SortTokensArgs{.ids = rows, .runs = space.runs, .tokens = tokens}, stream);
  if (runs == 1) return space.runs;
  Launch(MergeRunsKernelGpu,
         {.blocks = {runs * (kSortRun / kMergeThreads)}, .threads = kMergeThreads},
         MergeRunsArgs{.runs = space.runs,
                       .order = space.order,
                       .tokens = tokens,
                       .run_count = static_cast<int>(runs)},
         stream);
  return space.order;
}

template <typename T, int kColumns>
void LaunchSums(EmbeddingSumArgs args, Stream& stream) {
  const int64_t groups = DivideUp(args.columns, kColumns);
  const int threads = ThreadsFor(groups, kSumThreads);
  args.slabs = static_cast<int>(DivideUp(groups, threads));
  const LaunchShape shape = {.blocks = {DivideUp(args.tokens, kSumRun) * args.slabs},
                             .threads = threads};
  Launch(EmbeddingSumKernelGpu<T, kColumns>, shape, args, stream);
  if (args.tokens > kSumRun) Launch(EmbeddingJoinKernelGpu<kColumns>, shape, args, stream);
}

// table[rows[t]] += scale * dropout'(d_out[t]), in token order.
template <typename T>
void AccumulateRows(const EmbeddingBackwardArgs& args, const int32_t* rows, const Rows& table,
                    float scale, int32_t zero_row, Stream& stream) {
  const Workspace space(args.tokens, args.columns, stream);
  const EmbeddingSumArgs sums = {.d_out = args.d_out,
                                 .d_table = table,
                                 .order = SortTokens(rows, args.tokens, space, stream),
                                 .heads = space.heads,
                                 .tails = space.tails,
                                 .scale = scale,
                                 .zero_row = zero_row,
                                 .dropout = args.dropout,
                                 .tokens = args.tokens,
                                 .columns = args.columns,
                                 .slabs = 1};
  if (args.columns % kVectorColumns == 0 && RowsAligned<T>(args.d_out) &&
      RowsAligned<float>(table)) {
    LaunchSums<T, kVectorColumns>(sums, stream);
  } else {
    LaunchSums<T, 1>(sums, stream);
  }
}

}  // namespace

template <typename T>
void EmbeddingForwardKernelCuda(const EmbeddingForwardArgs& args, Stream& stream) {
  DT_CHECK_LT(args.columns, int64_t{1} << 30) << "embeddings support fewer than 2^30 columns";
  const bool aligned = args.columns % kVectorColumns == 0 && RowsAligned<T>(args.table) &&
                       RowsAligned<T>(args.positions) && RowsAligned<T>(args.out);
  const LaunchShape shape = {.blocks = {DivideUp(args.token_end, kGatherThreads / kWarpSize)},
                             .threads = kGatherThreads};
  Launch(aligned ? EmbeddingForwardKernelGpu<T, kVectorColumns> : EmbeddingForwardKernelGpu<T, 1>,
         shape, args, stream);
}

template <typename T>
void EmbeddingBackwardKernelCuda(const EmbeddingBackwardArgs& args, Stream& stream) {
  DT_CHECK_LT(args.columns, int64_t{1} << 30) << "embeddings support fewer than 2^30 columns";
  if (args.tokens == 0) return;
  AccumulateRows<T>(args, args.ids, args.d_table, args.scale, args.zero_id, stream);
  if (args.d_positions.data != nullptr) {
    // Positions are a table too. Sorting them again allows any numbering, not only 0, 1, 2, ...
    AccumulateRows<T>(args, args.position_ids, args.d_positions, 1.0f, -1, stream);
  }
}

template <typename T>
void FillSinusoidsKernelCuda(const Rows& table, int64_t rows, int64_t hidden, Stream& stream) {
  Launch(SinusoidKernelGpu<T>,
         {.blocks = {DivideUp(rows * (hidden / 2), kGatherThreads)}, .threads = kGatherThreads},
         SinusoidArgs{.table = table, .rows = rows, .hidden = hidden}, stream);
}

template void EmbeddingForwardKernelCuda<float>(const EmbeddingForwardArgs&, Stream&);
template void EmbeddingForwardKernelCuda<BFloat16>(const EmbeddingForwardArgs&, Stream&);
template void EmbeddingForwardKernelCuda<Float16>(const EmbeddingForwardArgs&, Stream&);
template void EmbeddingBackwardKernelCuda<float>(const EmbeddingBackwardArgs&, Stream&);
template void EmbeddingBackwardKernelCuda<BFloat16>(const EmbeddingBackwardArgs&, Stream&);
template void EmbeddingBackwardKernelCuda<Float16>(const EmbeddingBackwardArgs&, Stream&);
template void FillSinusoidsKernelCuda<float>(const Rows&, int64_t, int64_t, Stream&);
template void FillSinusoidsKernelCuda<BFloat16>(const Rows&, int64_t, int64_t, Stream&);
template void FillSinusoidsKernelCuda<Float16>(const Rows&, int64_t, int64_t, Stream&);

}  // namespace dtrain
