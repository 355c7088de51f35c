// host_executor_test.cc - kernels run as on a GPU, and kernels that break a rule are refused.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "device/kernel_testing.h"
#include "dtrain/device/cuda/packed.cuh"
#include "dtrain/device/cuda/reduce.cuh"
#include "testing/catch.h"
#include "testing/host_executor/executor.h"

namespace dtrain {
namespace {

using Catch::Contains;
using host_executor::Error;
using host_executor::Order;
using testing::AllOrders;
using testing::ErrorOf;

struct IntArgs {
  int* out = nullptr;
};
struct FloatArgs {
  const float* x = nullptr;
  float* y = nullptr;
  int n = 0;
};

// --- What kernels may do -------------------------------------------------------------------------

__global__ void CountKernel(IntArgs args) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  args.out[block * blockDim.x + threadIdx.x] += 1;
}

TEST_CASE("every thread of every block runs once") {
  for (const Order& order : AllOrders()) {
    host_executor::SetOrder(order);
    std::vector<int> counts(2 * 3 * 4 * 96);
    CHECK(ErrorOf(CountKernel, {.blocks = {2, 3, 4}, .threads = 96}, {counts.data()}).empty());
    CHECK(std::all_of(counts.begin(), counts.end(), [](int count) { return count == 1; }));
  }
  host_executor::SetOrder({});
}

TEST_CASE("a grid without blocks starts nothing") {
  int count = 0;
  CHECK(ErrorOf(CountKernel, {.blocks = {0}, .threads = 32}, {&count}).empty());
  CHECK(count == 0);
}

__global__ void RowSumKernel(FloatArgs args) {
  float sum = 0;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < args.n; i += static_cast<int>(blockDim.x)) {
    sum += args.x[static_cast<int>(blockIdx.x) * args.n + i];
  }
  // Two reductions in a row share their memory.
  sum = BlockSum(sum);
  const float twice = BlockSum(threadIdx.x == 0 ? 2 * sum : 0.0f);
  args.y[blockIdx.x * blockDim.x + threadIdx.x] = twice - sum;
}

TEST_CASE("a block's sum is the same in every thread and in every order of the threads") {
  constexpr int kRows = 5, kColumns = 300, kThreads = 256;
  std::vector<float> x(kRows * kColumns);
  std::iota(x.begin(), x.end(), 0.0f);
  for (const Order& order : AllOrders()) {
    host_executor::SetOrder(order);
    std::vector<float> y(kRows * kThreads);
    REQUIRE(ErrorOf(RowSumKernel, {.blocks = {kRows}, .threads = kThreads},
                    {x.data(), y.data(), kColumns})
                .empty());
    for (int row = 0; row < kRows; ++row) {
      const auto first = x.begin() + row * kColumns;
      const float expected = std::accumulate(first, first + kColumns, 0.0f);
      for (int i = 0; i < kThreads; ++i) {
        REQUIRE(y[static_cast<size_t>(row * kThreads + i)] == expected);
      }
    }
  }
  host_executor::SetOrder({});
}

struct ShuffleArgs {
  std::array<int, 7>* out = nullptr;
  double* wide = nullptr;
};

__global__ void ShuffleKernel(ShuffleArgs args) {
  const int lane = static_cast<int>(threadIdx.x);
  const int value = 100 + lane;
  std::array<int, 7>& out = args.out[lane];
  out[0] = __shfl_sync(kFullWarp, value, 5);
  out[1] = __shfl_sync(kFullWarp, value, lane + 1, 8);
  out[2] = __shfl_xor_sync(kFullWarp, value, 3);
  out[3] = __shfl_down_sync(kFullWarp, value, 4);
  out[4] = __shfl_up_sync(kFullWarp, value, 4, 16);
  out[5] = static_cast<int>(__ballot_sync(kFullWarp, lane % 3 == 0));
  out[6] = __any_sync(kFullWarp, lane == 9) + 2 * __any_sync(kFullWarp, lane == 99) +
           4 * __all_sync(kFullWarp, lane < 32) + 8 * __all_sync(kFullWarp, lane < 31);
  args.wide[lane] = __shfl_xor_sync(kFullWarp, lane + 0.5, 16);
}

TEST_CASE("shuffles and votes give each lane what PTX says") {
  std::array<std::array<int, 7>, 32> out{};
  std::array<double, 32> wide{};
  REQUIRE(ErrorOf(ShuffleKernel, {.threads = 32}, {out.data(), wide.data()}).empty());
  int multiples = 0;
  for (int lane = 0; lane < 32; lane += 3) multiples |= static_cast<int>(1u << lane);
  for (int lane = 0; lane < 32; ++lane) {
    const std::array<int, 7> expected = {105,
                                         100 + lane / 8 * 8 + (lane + 1) % 8,
                                         100 + (lane ^ 3),
                                         100 + (lane + 4 < 32 ? lane + 4 : lane),
                                         100 + (lane % 16 >= 4 ? lane - 4 : lane),
                                         multiples,
                                         1 + 4};
    CHECK(out[static_cast<size_t>(lane)] == expected);
    CHECK(wide[static_cast<size_t>(lane)] == (lane ^ 16) + 0.5);
  }
}

struct SharedTile {
  alignas(16) float values[64];
};

__global__ void SharedKernel(IntArgs args) {
  auto* dynamic = reinterpret_cast<unsigned*>(DynamicShared());
  SharedTile& tile = SharedStorage<SharedTile>();
  const bool poisoned = dynamic[threadIdx.x] == 0xffffffffu &&
                        std::isnan(tile.values[threadIdx.x]) &&
                        &tile == &SharedStorage<SharedTile>();
  __syncthreads();
  dynamic[threadIdx.x] = threadIdx.x;
  tile.values[threadIdx.x] = 0;
  __syncthreads();
  const bool exchanged = dynamic[threadIdx.x ^ 63] == (threadIdx.x ^ 63);
  const bool aligned = reinterpret_cast<uintptr_t>(dynamic) % 128 == 0;
  args.out[blockIdx.x * blockDim.x + threadIdx.x] = poisoned + 2 * exchanged + 4 * aligned;
}

TEST_CASE("shared memory belongs to one block and starts as NaN") {
  std::vector<int> out(3 * 64);
  REQUIRE(ErrorOf(SharedKernel, {.blocks = {3}, .threads = 64, .shared_bytes = 256}, {out.data()})
              .empty());
  CHECK(out == std::vector<int>(3 * 64, 7));
}

__global__ void VisitKernel(IntArgs args) {
  const int turn = args.out[0]++;
  args.out[1 + turn] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

TEST_CASE("threads and blocks take their turns in the order asked for") {
  const auto visits = [] {
    std::vector<int> out(1 + 4 * 32);
    REQUIRE(ErrorOf(VisitKernel, {.blocks = {4}, .threads = 32}, {out.data()}).empty());
    return std::vector<int>(out.begin() + 1, out.end());
  };
  std::vector<int> forward(4 * 32);
  std::iota(forward.begin(), forward.end(), 0);
  CHECK(visits() == forward);
  host_executor::SetOrder({.kind = Order::Kind::kReverse});
  CHECK(visits() == std::vector<int>(forward.rbegin(), forward.rend()));
  host_executor::SetOrder({.kind = Order::Kind::kShuffled, .seed = 3});
  const std::vector<int> shuffled = visits();
  CHECK(shuffled != forward);
  CHECK(visits() == shuffled);
  CHECK(std::is_permutation(shuffled.begin(), shuffled.end(), forward.begin()));
  host_executor::SetOrder({});
}

TEST_CASE("the environment sets the order of OS threads that start later") {
  const auto first_visit = [](const char* order) {
    int first = -1;
    setenv("DTRAIN_EXECUTOR_ORDER", order, /*overwrite=*/1);
    std::thread([&] {
      std::vector<int> out(1 + 32);
      if (ErrorOf(VisitKernel, {.threads = 32}, {out.data()}).empty()) first = out[1];
    }).join();
    unsetenv("DTRAIN_EXECUTOR_ORDER");
    return first;
  };
  CHECK(first_visit("forward") == 0);
  CHECK(first_visit("reverse") == 31);
  CHECK(first_visit("shuffled:4") >= 0);
  CHECK(first_visit("backward") == -1);
}

TEST_CASE("OS threads run their kernels side by side") {
  std::vector<std::thread> ranks;
  std::array<std::vector<int>, 3> counts;
  for (std::vector<int>& mine : counts) {
    mine.resize(20 * 64);
    ranks.emplace_back([&mine] {
      for (int i = 0; i < 10; ++i) {
        if (!ErrorOf(CountKernel, {.blocks = {20}, .threads = 64}, {mine.data()}).empty()) return;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::vector<int>& mine : counts) CHECK(mine == std::vector<int>(20 * 64, 10));
}

// --- What they may not ---------------------------------------------------------------------------

__global__ void ExitBeforeBarrierKernel(IntArgs args) {
  if (static_cast<int>(threadIdx.x) >= *args.out) return;
  __syncthreads();
}

TEST_CASE("a thread that leaves before a barrier is named, in every order") {
  int n = 63;
  CHECK_THAT(ErrorOf(ExitBeforeBarrierKernel, {.blocks = {2}, .threads = 64}, {&n}),
             Contains("kernel ExitBeforeBarrierKernel, block (0, 0, 0), thread 63: left the kernel "
                      "while thread 0 waits at __syncthreads (host_executor_test.cc:"));
  host_executor::SetOrder({.kind = Order::Kind::kReverse});
  CHECK_THAT(ErrorOf(ExitBeforeBarrierKernel, {.blocks = {2}, .threads = 64}, {&n}),
             Contains("block (1, 0, 0), thread 62: waits at __syncthreads") &&
                 Contains("but 1 of 64 threads left the kernel without it"));
  host_executor::SetOrder({});
  n = 64;
  CHECK(ErrorOf(ExitBeforeBarrierKernel, {.blocks = {2}, .threads = 64}, {&n}).empty());
}

__global__ void DivergentBarrierKernel(IntArgs) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_CASE("a barrier in a branch that not all threads take is refused") {
  CHECK_THAT(ErrorOf(DivergentBarrierKernel, {.threads = 64}, IntArgs{}),
             Contains("thread 32: waits at __syncthreads") && Contains("but thread 0 at"));
}

__global__ void DivergentShuffleKernel(IntArgs args) {
  if (threadIdx.x % 32 < 16) *args.out = __shfl_xor_sync(kFullWarp, 1, 1);
}
__global__ void DifferentShuffleKernel(IntArgs args) {
  *args.out =
      threadIdx.x % 2 == 0 ? __shfl_xor_sync(kFullWarp, 1, 1) : __shfl_down_sync(kFullWarp, 1, 1);
}
__global__ void PartialMaskKernel(IntArgs args) {
  if (threadIdx.x < 16) *args.out = __shfl_xor_sync(0xffffu, 1, 1);
}

TEST_CASE("a warp operation that not all lanes reach is refused") {
  int out = 0;
  CHECK_THAT(ErrorOf(DivergentShuffleKernel, {.threads = 32}, {&out}),
             Contains("thread 16: left the kernel while thread 0 of its warp waits at "
                      "__shfl_xor_sync"));
  CHECK_THAT(ErrorOf(DifferentShuffleKernel, {.threads = 32}, {&out}),
             Contains("thread 1: takes part in __shfl_down_sync") &&
                 Contains("but thread 0 of its warp in __shfl_xor_sync"));
  CHECK_THAT(ErrorOf(PartialMaskKernel, {.threads = 32}, {&out}),
             Contains("with a mask other than 0xffffffff"));
}

__global__ void DeadlockKernel(IntArgs) {
  if (threadIdx.x % 32 == 5) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

TEST_CASE("threads that wait for each other are listed") {
  CHECK_THAT(ErrorOf(DeadlockKernel, {.threads = 64}, IntArgs{}),
             Contains("2 threads (thread 5 was the first) at __syncthreads") &&
                 Contains("31 lanes of warp 1 (thread 32 was the first) at __syncwarp"));
}

__global__ void MisalignedKernel(FloatArgs args) {
  StorePacked(args.y, LoadPacked<4>(args.x + threadIdx.x));
}

TEST_CASE("a vector access at an address it does not fit is refused") {
  alignas(16) std::array<float, 36> x{};
  alignas(16) std::array<float, 4> y{};
  CHECK_THAT(ErrorOf(MisalignedKernel, {.threads = 32}, {x.data(), y.data(), 0}),
             Contains("thread 1: an access of 16 bytes at an address aligned to 4"));
}

#if !defined(__SANITIZE_ADDRESS__)  // which stops at the access itself
__global__ void OverrunKernel(IntArgs) {
  auto* shared = reinterpret_cast<int*>(DynamicShared());
  shared[threadIdx.x + 1] = 1;
}
__global__ void StaticOverrunKernel(IntArgs) {
  float* const values = SharedStorage<SharedTile>().values;
  values[static_cast<int>(threadIdx.x) - 1] = 1;
}

TEST_CASE("a write past shared memory is found when the block ends") {
  CHECK_THAT(ErrorOf(OverrunKernel, {.threads = 32, .shared_bytes = 128}, IntArgs{}),
             Contains("block (0, 0, 0): a byte outside of shared memory was written: byte 128 of "
                      "the 128 dynamic bytes"));
  CHECK(ErrorOf(OverrunKernel, {.threads = 32, .shared_bytes = 132}, IntArgs{}).empty());
  CHECK_THAT(ErrorOf(StaticOverrunKernel, {.threads = 64}, IntArgs{}),
             Contains("outside of shared memory was written"));
}
#endif

struct LargeObject {
  unsigned char bytes[(48 << 10) + 4];
};
__global__ void LargeObjectKernel(IntArgs args) {
  *args.out = SharedStorage<LargeObject>().bytes[0];
}

TEST_CASE("launches no GPU would start are refused") {
  int out = 0;
  const IntArgs args{&out};
  CHECK_THAT(ErrorOf(CountKernel, {.threads = 48}, args), Contains("blocks of 48 threads"));
  CHECK_THAT(ErrorOf(CountKernel, {.threads = 1056}, args), Contains("blocks of 1056 threads"));
  CHECK_THAT(ErrorOf(CountKernel, {.blocks = {1, 65536}, .threads = 32}, args),
             Contains("a grid of 1 x 65536 x 1 blocks"));
  CHECK_THAT(ErrorOf(CountKernel, {.blocks = {-1}, .threads = 32}, args), Contains("-1 x 1 x 1"));
  CHECK_THAT(ErrorOf(CountKernel, {.threads = 32, .shared_bytes = 228 << 10}, args),
             Contains("kernel CountKernel: 233472 bytes of shared memory"));
  CHECK_THAT(ErrorOf(LargeObjectKernel, {.threads = 32}, args),
             Contains("more than a block's static shared memory has"));
}

__global__ void NestedKernel(IntArgs args) {
  Stream stream;
  Launch(CountKernel, {.threads = 32}, args, stream);
}
__global__ void ThrowingKernel(IntArgs) {
  __syncthreads();
  if (threadIdx.x == 40) throw std::logic_error("a broken contract");
  __syncthreads();
}

TEST_CASE("what a kernel throws comes out of the launch, and the next launch runs") {
  std::vector<int> counts(64);
  CHECK_THAT(ErrorOf(NestedKernel, {.threads = 32}, {counts.data()}),
             Contains("kernels do not start kernels"));
  CHECK_THROWS_AS(ErrorOf(ThrowingKernel, {.threads = 64}, IntArgs{}), std::logic_error);
  CHECK(ErrorOf(CountKernel, {.threads = 64}, {counts.data()}).empty());
  CHECK(counts == std::vector<int>(64, 1));
}

TEST_CASE("outside of kernels there is nobody to wait for") {
  CHECK_THROWS_WITH(__syncthreads(), "__syncthreads outside of a kernel");
  CHECK_THROWS_WITH(__syncwarp(), "__syncwarp outside of a kernel");
  CHECK_THROWS_AS(DynamicShared(), Error);
}

}  // namespace
}  // namespace dtrain
