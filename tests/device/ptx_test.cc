// ptx_test.cc - the host twins of ptx.cuh against plain loops, and the mistakes they catch.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/device/cuda/ptx.cuh"

#include <array>
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

}  // namespace
}  // namespace dtrain
