// race_detector_test.cc - accesses without an order are found, and those with one are left alone.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/race_detector.h"

#include <array>
#include <vector>

#include "device/kernel_testing.h"
#include "dtrain/device/cuda/packed.cuh"
#include "dtrain/device/cuda/ptx.cuh"
#include "dtrain/device/cuda/reduce.cuh"
#include "testing/catch.h"

namespace dtrain {
namespace {

using Catch::Contains;
using testing::AllOrders;
using testing::ErrorOf;

struct FloatArgs {
  float* y = nullptr;
  bool correct = true;
};

// The error of the kernel with its mistake, which is the same in every order of the threads;
// without the mistake there is none.
template <typename Args>
std::string MistakeOf(void (*kernel)(Args), const LaunchShape& shape, Args args) {
  std::string mistake;
  for (const host_executor::Order& order : AllOrders()) {
    host_executor::SetOrder(order);
    args.correct = true;
    CHECK(ErrorOf(kernel, shape, args) == "");
    args.correct = false;
    mistake = ErrorOf(kernel, shape, args);
    CHECK_THAT(mistake, Contains("race"));
  }
  host_executor::SetOrder({});
  return mistake;
}

__global__ void ExchangeKernel(FloatArgs args) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  shared[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (args.correct) __syncthreads();
  args.y[blockIdx.x * blockDim.x + threadIdx.x] = shared[threadIdx.x ^ 32];
}

TEST_CASE("a missing barrier between a write and a read is found") {
  std::vector<float> y(2 * 64);
  CHECK_THAT(
      MistakeOf(ExchangeKernel, {.blocks = {2}, .threads = 64, .shared_bytes = 256}, {y.data()}),
      Contains("kernel ExchangeKernel, block (") && Contains("shared memory (byte ") &&
          Contains("with no barrier in between"));
}

__global__ void OverwriteKernel(FloatArgs args) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  if (threadIdx.x == 0) shared[0] = 1;
  __syncthreads();
  args.y[threadIdx.x] = shared[0];
  if (args.correct) __syncthreads();
  if (threadIdx.x == 17) shared[0] = 2;
}

TEST_CASE("a missing barrier between many reads and a write is found") {
  std::vector<float> y(64);
  MistakeOf(OverwriteKernel, {.threads = 64, .shared_bytes = 4}, {y.data()});
}

__global__ void WarpExchangeKernel(FloatArgs args) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  shared[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (args.correct) __syncwarp();
  args.y[threadIdx.x] = shared[threadIdx.x ^ 1];
}

// A warp operation orders one warp alone.
__global__ void TwoWarpExchangeKernel(FloatArgs args) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  shared[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncwarp();
  args.y[threadIdx.x] = shared[args.correct ? threadIdx.x ^ 1 : threadIdx.x ^ 32];
}

TEST_CASE("lanes of a warp need a warp operation between their accesses") {
  std::vector<float> y(64);
  MistakeOf(WarpExchangeKernel, {.threads = 64, .shared_bytes = 256}, {y.data()});
  MistakeOf(TwoWarpExchangeKernel, {.threads = 64, .shared_bytes = 256}, {y.data()});
}

__global__ void NeighbourBlockKernel(FloatArgs args) {
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  args.y[at] = 1;
  __syncthreads();
  if (!args.correct && threadIdx.x == 0 && blockIdx.x == 2) args.y[at - 1] = 2;
}

TEST_CASE("a write to what another block writes is found") {
  std::vector<float> y(4 * 32);
  CHECK_THAT(MistakeOf(NeighbourBlockKernel, {.blocks = {4}, .threads = 32}, {y.data()}),
             Contains("4 bytes of global memory that were written by another block"));
}

template <typename T>
struct NarrowArgs {
  T* y = nullptr;
  bool correct = true;
};

// Every thread its own element, or its own pair of elements one apart.
template <typename T>
__global__ void NarrowKernel(NarrowArgs<T> args) {
  args.y[threadIdx.x] = T{};
  if (!args.correct) args.y[threadIdx.x + 1] = T{};
}

TEST_CASE("threads that write neighbouring narrow elements do not race") {
  std::vector<BFloat16> halves(65);
  std::vector<uint8_t> bytes(65);
  MistakeOf(NarrowKernel<BFloat16>, {.threads = 64}, {halves.data()});
  MistakeOf(NarrowKernel<uint8_t>, {.threads = 64}, {bytes.data()});
}

__global__ void PackedKernel(FloatArgs args) {
  Packed<float, 4> pack{};
  StorePacked(args.y + 4 * threadIdx.x, pack);
  // The last word of the neighbour's pack.
  if (!args.correct) args.y[4 * (threadIdx.x ^ 1) + 3] = 1;
}

TEST_CASE("vector accesses are looked at in all their bytes") {
  alignas(16) std::array<float, 128> y{};
  MistakeOf(PackedKernel, {.threads = 32}, {y.data()});
}

__global__ void OverreadKernel(FloatArgs args) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  shared[threadIdx.x] = 1;
  __syncthreads();
  args.y[threadIdx.x] = shared[threadIdx.x + 1];
}

TEST_CASE("a read past shared memory is found at once") {
  std::vector<float> y(32);
  CHECK_THAT(ErrorOf(OverreadKernel, {.threads = 32, .shared_bytes = 128}, {y.data()}),
             Contains("thread 31: reads 4 bytes outside of shared memory: byte 128 of the 128"));
}

__global__ void CopyKernel(FloatArgs args) {
  float* shared = reinterpret_cast<float*>(DynamicShared());
  CpAsync16(shared + 4 * threadIdx.x, args.y + 4 * threadIdx.x, true);
  CpAsyncCommit();
  CpAsyncWait<0>();
  if (args.correct) __syncthreads();
  args.y[128 + threadIdx.x] = shared[4 * (threadIdx.x ^ 1)];
}

TEST_CASE("a copy waited for is there for its own thread alone, until a barrier") {
  alignas(16) std::array<float, 160> y{};
  MistakeOf(CopyKernel, {.threads = 32, .shared_bytes = 512}, {y.data()});
}

__global__ void LdMatrixRaceKernel(FloatArgs args) {
  auto* words = reinterpret_cast<uint32_t*>(DynamicShared());
  for (unsigned i = 0; i < 4; ++i) words[4 * (threadIdx.x ^ 1) + i] = 0;
  if (args.correct) __syncthreads();
  uint32_t r[4];
  LdMatrixX4(r, words + 4 * threadIdx.x);
  args.y[threadIdx.x] = static_cast<float>(r[0]);
}

TEST_CASE("what ldmatrix reads is looked at") {
  std::vector<float> y(32);
  MistakeOf(LdMatrixRaceKernel, {.threads = 32, .shared_bytes = 512}, {y.data()});
}

// Everything together, and rightly: reductions, a loop over tiles in shared memory that all blocks
// take in turn, results read back by their own thread.
__global__ void BusyKernel(FloatArgs args) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  float* const row = args.y + static_cast<size_t>(blockIdx.x) * blockDim.x;
  for (int tile = 0; tile < 5; ++tile) {
    shared[threadIdx.x] = row[threadIdx.x] + static_cast<float>(tile);
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x; i += 7) sum += shared[i];
    sum = BlockSum(sum) + WarpMax(sum);
    __syncthreads();
    row[threadIdx.x] = sum;
    row[threadIdx.x] += 1;
  }
}

TEST_CASE("kernels that keep the order are left alone") {
  std::vector<float> y(3 * 96);
  for (const host_executor::Order& order : AllOrders()) {
    host_executor::SetOrder(order);
    for (int launch = 0; launch < 2; ++launch) {
      CHECK(ErrorOf(BusyKernel, {.blocks = {3}, .threads = 96, .shared_bytes = 384}, {y.data()}) ==
            "");
    }
  }
  host_executor::SetOrder({});
}

TEST_CASE("this test's kernels are observed") { REQUIRE(host_executor::race::enabled); }

}  // namespace
}  // namespace dtrain
