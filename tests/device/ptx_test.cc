// ptx_test.cc - the host twins of ptx.cuh against plain loops, and the mistakes they catch.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/ptx.cuh"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "device/kernel_testing.h"
#include "testing/catch.h"

namespace dtrain {
namespace {

using Catch::Contains;
using testing::ErrorOf;

// --- Tensor cores --------------------------------------------------------------------------------

enum class Instruction { kK16, kK8, kPortable };

template <typename T>
struct MmaArgs {
  const T* a = nullptr;  // [16, 16]
  const T* b = nullptr;  // [16, 8]
  float* d = nullptr;    // [16, 8], added to
  Instruction instruction = Instruction::kK16;
};

template <typename T>
uint32_t Pair(T low, T high) {
  return low.bits | static_cast<uint32_t>(high.bits) << 16;
}

// Fragments gathered element by element, as PTX tables them.
template <typename T>
__global__ void MmaKernel(MmaArgs<T> args) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  const auto a = [&](int row, int k) {
    return Pair(args.a[row * 16 + k], args.a[row * 16 + k + 1]);
  };
  const auto b = [&](int k) { return Pair(args.b[k * 8 + g], args.b[(k + 1) * 8 + g]); };
  const uint32_t a_fragment[4] = {a(g, 2 * t), a(g + 8, 2 * t), a(g, 2 * t + 8),
                                  a(g + 8, 2 * t + 8)};
  const uint32_t b_fragment[2] = {b(2 * t), b(2 * t + 8)};
  float d[4];
  for (int i = 0; i < 4; ++i) d[i] = args.d[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  if (args.instruction == Instruction::kK16) MmaM16N8K16<T>(d, a_fragment, b_fragment);
  if (args.instruction == Instruction::kPortable) MatrixMultiply16<T>(d, a_fragment, b_fragment);
  if constexpr (std::is_same_v<T, Float16>) {
    if (args.instruction == Instruction::kK8) {
      MmaM16N8K8<T>(d, {a_fragment[0], a_fragment[1]}, {b_fragment[0]});
    }
  }
  for (int i = 0; i < 4; ++i) args.d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

// Small integers, exact in every type; all different enough that a swapped pair shows.
int ValueA(int row, int k) { return (row * 7 + k * 13) % 23 - 11; }
int ValueB(int k, int column) { return (k * 5 + column * 11) % 19 - 9; }
int ValueD(int row, int column) { return row * 8 + column; }

template <typename T>
void CheckMma(Instruction instruction, int depth) {
  std::vector<T> a, b;
  std::vector<float> d;
  for (int i = 0; i < 16 * 16; ++i) a.push_back(T(static_cast<float>(ValueA(i / 16, i % 16))));
  for (int i = 0; i < 16 * 8; ++i) b.push_back(T(static_cast<float>(ValueB(i / 8, i % 8))));
  for (int i = 0; i < 16 * 8; ++i) d.push_back(static_cast<float>(ValueD(i / 8, i % 8)));
  REQUIRE(
      ErrorOf(MmaKernel<T>, {.threads = 32}, {a.data(), b.data(), d.data(), instruction}).empty());
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      int expected = ValueD(row, column);
      for (int k = 0; k < depth; ++k) expected += ValueA(row, k) * ValueB(k, column);
      CHECK(d[static_cast<size_t>(row * 8 + column)] == static_cast<float>(expected));
    }
  }
}

TEST_CASE("tensor-core products agree with a plain loop at every position") {
  CheckMma<BFloat16>(Instruction::kK16, 16);
  CheckMma<Float16>(Instruction::kK16, 16);
  CheckMma<Float16>(Instruction::kK8, 8);
  CheckMma<BFloat16>(Instruction::kPortable, 16);
  CheckMma<Float16>(Instruction::kPortable, 16);
}

// --- ldmatrix ------------------------------------------------------------------------------------

struct LdMatrixArgs {
  std::array<uint32_t, 12>* out = nullptr;
  int offset = 0;  // bytes, of every address
};

// Matrix i has element (row, column) = 64 * i + 8 * row + column.
__global__ void LdMatrixKernel(LdMatrixArgs args) {
  auto* elements = reinterpret_cast<uint16_t*>(DynamicShared());
  for (unsigned i = threadIdx.x; i < 256; i += 32) elements[i] = static_cast<uint16_t>(i);
  __syncthreads();
  const unsigned char* row = DynamicShared() + 16 * threadIdx.x + args.offset;
  uint32_t four[4], two[2];
  std::array<uint32_t, 12>& out = args.out[threadIdx.x];
  LdMatrixX4(four, row);
  for (size_t i = 0; i < 4; ++i) out[i] = four[i];
  LdMatrixX4Trans(four, row);
  for (size_t i = 0; i < 4; ++i) out[4 + i] = four[i];
  // The addresses of the upper lanes do not count.
  const unsigned char* low_row = threadIdx.x < 16 ? row : nullptr;
  LdMatrixX2(two, low_row);
  for (size_t i = 0; i < 2; ++i) out[8 + i] = two[i];
  LdMatrixX2Trans(two, low_row);
  for (size_t i = 0; i < 2; ++i) out[10 + i] = two[i];
}

TEST_CASE("ldmatrix hands out rows, and columns when transposing") {
  std::array<std::array<uint32_t, 12>, 32> out{};
  REQUIRE(ErrorOf(LdMatrixKernel, {.threads = 32, .shared_bytes = 512}, {out.data(), 0}).empty());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row_pair = (64 * i + 8 * g + 2 * t) | (64 * i + 8 * g + 2 * t + 1) << 16;
      const uint32_t column_pair = (64 * i + 16 * t + g) | (64 * i + 16 * t + 8 + g) << 16;
      CHECK(out[lane][i] == row_pair);
      CHECK(out[lane][4 + i] == column_pair);
      if (i >= 2) continue;
      CHECK(out[lane][8 + i] == row_pair);
      CHECK(out[lane][10 + i] == column_pair);
    }
  }
}

TEST_CASE("ldmatrix refuses rows that are misaligned or not in shared memory") {
  std::array<std::array<uint32_t, 12>, 32> out{};
  CHECK_THAT(ErrorOf(LdMatrixKernel, {.threads = 32, .shared_bytes = 640}, {out.data(), 8}),
             Contains("an access of 16 bytes at an address aligned to 8"));
  CHECK_THAT(ErrorOf(LdMatrixKernel, {.threads = 32, .shared_bytes = 512}, {out.data(), 16}),
             Contains("thread 31: 16 bytes outside of shared memory: byte 512 of the 512 dynamic"));
}

// Row-major matrices through ldmatrix into the tensor core: what attention does.
struct ProductArgs {
  const BFloat16* a = nullptr;  // [16, 16]
  const BFloat16* b = nullptr;  // [16, 8]
  float* d = nullptr;           // [16, 8]
};

__global__ void ProductKernel(ProductArgs args) {
  auto* a = reinterpret_cast<BFloat16*>(DynamicShared());
  BFloat16* b = a + 16 * 16;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * 16; i += 32) a[i] = args.a[i];
  for (int i = lane; i < 16 * 8; i += 32) b[i] = args.b[i];
  __syncthreads();
  uint32_t a_fragment[4], b_fragment[2];
  LdMatrixX4(a_fragment, a + lane % 16 * 16 + lane / 16 * 8);
  LdMatrixX2Trans(b_fragment, b + lane % 16 * 8);
  float d[4] = {};
  MatrixMultiply16<BFloat16>(d, a_fragment, b_fragment);
  for (int i = 0; i < 4; ++i) args.d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}

TEST_CASE("matrices in row order meet in the tensor core by way of ldmatrix") {
  std::vector<BFloat16> a, b;
  std::vector<float> d(16 * 8);
  for (int i = 0; i < 16 * 16; ++i) a.emplace_back(static_cast<float>(ValueA(i / 16, i % 16)));
  for (int i = 0; i < 16 * 8; ++i) b.emplace_back(static_cast<float>(ValueB(i / 8, i % 8)));
  REQUIRE(
      ErrorOf(ProductKernel, {.threads = 32, .shared_bytes = 768}, {a.data(), b.data(), d.data()})
          .empty());
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      int expected = 0;
      for (int k = 0; k < 16; ++k) expected += ValueA(row, k) * ValueB(k, column);
      CHECK(d[static_cast<size_t>(row * 8 + column)] == static_cast<float>(expected));
    }
  }
}

// --- Asynchronous copies -------------------------------------------------------------------------

struct CopyArgs {
  const int* x = nullptr;    // two groups of 4 * 32
  int* y = nullptr;          // the same
  int groups_in_flight = 0;  // at the first look
  int valid = 32;            // threads below copy
  bool waits = true;         // in the end
};

__global__ void CopyKernel(CopyArgs args) {
  auto* shared = reinterpret_cast<int*>(DynamicShared());
  const int thread = static_cast<int>(threadIdx.x);
  for (int group = 0; group < 2; ++group) {
    const int at = group * 128 + 4 * thread;
    CpAsync16(shared + at, thread < args.valid ? args.x + at : nullptr, thread < args.valid);
    CpAsyncCommit();
  }
  if (args.groups_in_flight == 0) CpAsyncWait<0>();
  if (args.groups_in_flight == 1) CpAsyncWait<1>();
  for (int group = 0; group < 2; ++group) {
    for (int i = 0; i < 4; ++i) {
      const int at = group * 128 + 4 * thread + i;
      args.y[at] = shared[at];
    }
  }
  if (args.waits) CpAsyncWait<0>();
}

TEST_CASE("copies arrive group by group, when they are waited for") {
  alignas(16) std::array<int, 256> x{};
  for (int i = 0; i < 256; ++i) x[static_cast<size_t>(i)] = 1000 + i;
  const auto value = [&](CopyArgs args, size_t at) {
    std::array<int, 256> y{};
    args.x = x.data();
    args.y = y.data();
    REQUIRE(ErrorOf(CopyKernel, {.threads = 32, .shared_bytes = 1024}, args).empty());
    return y[at];
  };
  CHECK(value({.groups_in_flight = 0}, 3) == 1003);
  CHECK(value({.groups_in_flight = 0}, 255) == 1255);
  CHECK(value({.groups_in_flight = 1}, 127) == 1127);
  CHECK(value({.groups_in_flight = 1}, 128) == -1);  // not yet
  CHECK(value({.groups_in_flight = 2}, 0) == -1);    // no wait at all
  CHECK(value({.valid = 31}, 123) == 1123);
  CHECK(value({.valid = 31}, 124) == 0);  // thread 31 copies zeros
}

TEST_CASE("copies are refused that nobody waits for, or that do not fit") {
  alignas(16) std::array<int, 260> x{};
  std::array<int, 256> y{};
  const LaunchShape shape{.threads = 32, .shared_bytes = 1024};
  CHECK_THAT(ErrorOf(CopyKernel, shape,
                     {.x = x.data(), .y = y.data(), .groups_in_flight = 1, .waits = false}),
             Contains("left the kernel with copies it never waited for"));
  CHECK_THAT(ErrorOf(CopyKernel, shape, {.x = x.data() + 1, .y = y.data()}),
             Contains("an access of 16 bytes at an address aligned to 4"));
  CHECK_THAT(ErrorOf(CopyKernel, {.threads = 32, .shared_bytes = 1016}, {x.data(), y.data()}),
             Contains("outside of shared memory: byte 1008 of the 1016 dynamic bytes"));
}

TEST_CASE("a permutation of bytes takes bytes and signs of bytes") {
  CHECK(PermuteBytes(0x33221100, 0x77665544, 0x3210) == 0x33221100);
  CHECK(PermuteBytes(0x33221100, 0x77665544, 0x7520) == 0x77552200);
  CHECK(PermuteBytes(0x7f8000ff, 0x00000080, 0xba98) == 0x00ff00ff);
  CHECK(PermuteBytes(0x7f8000ff, 0x00000080, 0xcc33) == 0xffff7f7f);
  CHECK(SignOfByte<1>(0x00008000) == 0xffffffff);
  CHECK(SignOfByte<3>(0x7fffffff) == 0);
}

// --- Products of a warpgroup ---------------------------------------------------------------------

enum class Mistake {
  kNone,
  kNoArrive,       // registers may not be ready
  kNoFence,        // copies may not be visible
  kReadsTooEarly,  // sums are read before the wait
  kNoWait,         // the kernel ends before the products do
  kOneWarpLess,    // the fourth warp does not take part
};

struct WarpgroupArgs {
  const BFloat16* a = nullptr;  // [64, 64]
  const BFloat16* b = nullptr;  // [64, 64]
  float* d = nullptr;           // [64, 64]
  bool a_from_registers = false;
  bool b_is_transposed = false;  // with a from registers
  bool adds = false;             // to what d holds
  Mistake mistake = Mistake::kNone;
};

// Where chunk `chunk` of row `row` lies, as WarpgroupTile says.
BFloat16* ChunkOf(BFloat16* tile, int row, int chunk) {
  return tile + row * 64 + (chunk ^ (row & 7)) * 8;
}

__global__ void WarpgroupKernel(WarpgroupArgs args) {
  auto* const a = reinterpret_cast<BFloat16*>(DynamicShared());
  BFloat16* const b = a + 64 * 64;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 64 * 8; i += 128) {
    CpAsync16(ChunkOf(a, i / 8, i % 8), args.a + i * 8, true);
    CpAsync16(ChunkOf(b, i / 8, i % 8), args.b + i * 8, true);
  }
  CpAsyncCommit();
  CpAsyncWait<0>();
  if (args.mistake != Mistake::kNoFence) FenceAsyncProxy();
  __syncthreads();
  const int warp = thread / 32;
  const int g = thread % 32 / 4, t = thread % 4;
  const auto at = [&](int n, int i) {
    return (16 * warp + g + i / 2 * 8) * 64 + 8 * n + 2 * t + i % 2;
  };
  float d[8][4];
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 4; ++i) d[n][i] = args.adds ? args.d[at(n, i)] : 77.0f;
  }
  uint32_t left[4][4];
  for (int step = 0; step < 4; ++step) {
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * warp + g + i % 2 * 8;
      const BFloat16* const pair = args.a + row * 64 + 16 * step + i / 2 * 8 + 2 * t;
      left[step][i] = Pair(pair[0], pair[1]);
    }
  }
  if (args.mistake != Mistake::kOneWarpLess || warp != 3) {
    const WarpgroupTile a_tile = MakeWarpgroupTile(a);
    const WarpgroupTile b_tile = MakeWarpgroupTile(b);
    if (args.mistake != Mistake::kNoArrive) WarpgroupArrive();
    for (int step = 0; step < 4; ++step) {
      const bool adds = args.adds || step > 0;
      if (!args.a_from_registers) {
        WarpgroupProduct<BFloat16>(d, a_tile, b_tile, step, adds);
      } else if (args.b_is_transposed) {
        WarpgroupProduct<BFloat16, true>(d, left[step], b_tile, step, adds);
      } else {
        WarpgroupProduct<BFloat16, false>(d, left[step], b_tile, step, adds);
      }
    }
    WarpgroupCommit();
    const bool waits_first = args.mistake != Mistake::kReadsTooEarly;
    if (waits_first && args.mistake != Mistake::kNoWait) WarpgroupWait<0>(d);
  }
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 4; ++i) args.d[at(n, i)] = d[n][i];
  }
  if (args.mistake == Mistake::kReadsTooEarly) WarpgroupWait<0>(d);
}

constexpr size_t kWarpgroupBytes = size_t{2} * 64 * 64 * sizeof(BFloat16);

// What the kernel says; the sums go to `d`.
std::string RunWarpgroup(WarpgroupArgs args, std::vector<float>& d) {
  std::vector<BFloat16> a, b;
  for (int i = 0; i < 64 * 64; ++i) a.emplace_back(static_cast<float>(ValueA(i / 64, i % 64)));
  for (int i = 0; i < 64 * 64; ++i) b.emplace_back(static_cast<float>(ValueB(i / 64, i % 64)));
  d.assign(64 * 64, 5.0f);
  args.a = a.data();
  args.b = b.data();
  args.d = d.data();
  return ErrorOf(WarpgroupKernel, {.threads = 128, .shared_bytes = kWarpgroupBytes}, args);
}

std::vector<float> ExpectedSums(bool b_is_transposed, int before) {
  std::vector<float> sums;
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < 64; ++column) {
      int sum = before;
      for (int k = 0; k < 64; ++k) {
        sum += ValueA(row, k) * (b_is_transposed ? ValueB(k, column) : ValueB(column, k));
      }
      sums.push_back(static_cast<float>(sum));
    }
  }
  return sums;
}

TEST_CASE("a warpgroup's products agree with a plain loop at every position") {
  for (const bool a_from_registers : {false, true}) {
    for (const bool b_is_transposed : {false, true}) {
      for (const bool adds : {false, true}) {
        if (b_is_transposed && !a_from_registers) continue;
        std::vector<float> d;
        REQUIRE(RunWarpgroup({.a_from_registers = a_from_registers,
                              .b_is_transposed = b_is_transposed,
                              .adds = adds},
                             d)
                    .empty());
        CHECK(d == ExpectedSums(b_is_transposed, adds ? 5 : 0));
      }
    }
  }
}

TEST_CASE("mistakes around a warpgroup's products are found") {
  std::vector<float> d;
  CHECK_THAT(RunWarpgroup({.mistake = Mistake::kNoArrive}, d),
             Contains("WarpgroupProduct without WarpgroupArrive"));
  CHECK_THAT(RunWarpgroup({.mistake = Mistake::kNoFence}, d),
             Contains("FenceAsyncProxy is missing"));
  CHECK_THAT(RunWarpgroup({.mistake = Mistake::kNoWait}, d),
             Contains("products of its warpgroup it never waited for"));
  CHECK_THAT(RunWarpgroup({.mistake = Mistake::kOneWarpLess}, d),
             Contains("thread 96 started 0 products of its warpgroup, thread 0 4"));
  REQUIRE(RunWarpgroup({.mistake = Mistake::kReadsTooEarly}, d).empty());
  CHECK(std::all_of(d.begin(), d.end(), [](float sum) { return std::isnan(sum); }));
}

__global__ void MisplacedTileKernel(ProductArgs) { MakeWarpgroupTile(DynamicShared() + 512); }

TEST_CASE("a tile of a warpgroup must start at a multiple of 1,024 bytes") {
  CHECK_THAT(ErrorOf(MisplacedTileKernel, {.threads = 128, .shared_bytes = 9216}, ProductArgs{}),
             Contains("an access of 1024 bytes at an address aligned to 512"));
}

}  // namespace
}  // namespace dtrain
