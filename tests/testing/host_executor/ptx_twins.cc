// ptx_twins.cc - tensor-core products and ldmatrix, gathered from and scattered to the lanes.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/ptx_twins.h"

#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/host_executor/cuda_language.h"
#include "testing/host_executor/scheduler.h"

namespace dtrain::host_executor {
namespace {

constexpr unsigned kFullMask = 0xffffffffu;

template <typename T>
float HalfOf(uint32_t pair, int half) {
  T value;
  value.bits = static_cast<uint16_t>(pair >> (16 * half));
  return static_cast<float>(value);
}

template <typename T, int kDepth>
void Multiply(void* const* operands) {
  float a[16][kDepth];
  float b[kDepth][8];
  float d[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = *static_cast<const Fragments*>(operands[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < kDepth / 4; ++i) {
      const int k = 2 * t + 8 * (i / 2);
      for (int half = 0; half < 2; ++half) {
        a[g + 8 * (i % 2)][k + half] = HalfOf<T>(mine.a[i], half);
        if (i % 2 == 0) b[k + half][g] = HalfOf<T>(mine.b[i / 2], half);
      }
    }
    for (int i = 0; i < 4; ++i) d[g + 8 * (i / 2)][2 * t + i % 2] = mine.d[i];
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = *static_cast<const Fragments*>(operands[lane]);
    for (int i = 0; i < 4; ++i) mine.d[i] = d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
  }
}

struct MatrixRow {
  uint32_t* r;
  const void* row;
};

template <int kMatrices, bool kTransposed>
void Load(void* const* operands) {
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    uint16_t elements[8][8];
    for (int row = 0; row < 8; ++row) {
      const auto& owner = *static_cast<const MatrixRow*>(operands[8 * matrix + row]);
      std::memcpy(elements[row], owner.row, 16);
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = 2 * (lane % 4);
      const uint32_t low = kTransposed ? elements[t][g] : elements[g][t];
      const uint32_t high = kTransposed ? elements[t + 1][g] : elements[g][t + 1];
      static_cast<const MatrixRow*>(operands[lane])->r[matrix] = low | high << 16;
    }
  }
}

// Element (row, column) of a tile in shared memory.
template <typename T>
float TileElement(const void* tile, int row, int column) {
  const int chunk = column / 8 ^ (row & 7);
  T value;
  std::memcpy(&value.bits, static_cast<const T*>(tile) + row * 64 + chunk * 8 + column % 8,
              sizeof(value.bits));
  return static_cast<float>(value);
}

constexpr int kProductDepth = 16;

template <typename T>
void LeftRows(const std::array<const WarpgroupOperands*, kLanes>& lanes, int warp,
              float (&a)[16][kProductDepth]) {
  if (const void* const tile = lanes[0]->a_tile) {
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < kProductDepth; ++k) {
        a[row][k] = TileElement<T>(tile, warp * 16 + row, lanes[0]->step * kProductDepth + k);
      }
    }
    return;
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const size_t g = lane / 4, t = lane % 4;
    for (size_t i = 0; i < 8; ++i) {
      a[g + 8 * (i / 2 % 2)][2 * t + 8 * (i / 4) + i % 2] =
          HalfOf<T>(lanes[lane]->a[i / 2], static_cast<int>(i % 2));
    }
  }
}

// One warp's rows of a product, added to the lanes' sums.
template <typename T>
void MultiplyWarpgroup(const std::array<const WarpgroupOperands*, kLanes>& lanes, int warp,
                       const std::array<float*, kLanes>& sums) {
  float a[16][kProductDepth];
  LeftRows<T>(lanes, warp, a);
  const WarpgroupOperands& x = *lanes[0];
  float b[kProductDepth][64];
  for (int k = 0; k < kProductDepth; ++k) {
    const int depth = x.step * kProductDepth + k;
    for (int n = 0; n < 64; ++n) {
      b[k][n] =
          x.is_transposed ? TileElement<T>(x.b_tile, depth, n) : TileElement<T>(x.b_tile, n, depth);
    }
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t i = 0; i < 32; ++i) {
      const size_t row = lane / 4 + 8 * (i / 2 % 2);
      const size_t column = i / 4 * 8 + 2 * (lane % 4) + i % 2;
      float sum = lanes[lane]->adds ? sums[lane][i] : 0.0f;
      for (size_t k = 0; k < kProductDepth; ++k) sum += a[row][k] * b[k][column];
      sums[lane][i] = sum;
    }
  }
}

WarpgroupProducts::Sum* FindSum(WarpgroupProducts& products, const float* d) {
  for (WarpgroupProducts::Sum& sum : products.sums) {
    if (sum.d == d) return &sum;
  }
  return nullptr;
}

bool HasEnded(const WarpgroupProducts& products, const WarpgroupProducts::Product& product,
              int groups_in_flight) {
  return product.group < products.groups - groups_in_flight;
}

struct WaitOperand {
  Thread* thread;
  int groups_in_flight;
};

void EndProducts(void* const* operands) {
  std::array<Thread*, kLanes> threads;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    threads[lane] = static_cast<const WaitOperand*>(operands[lane])->thread;
  }
  const int in_flight = static_cast<const WaitOperand*>(operands[0])->groups_in_flight;
  const auto& first = threads[0]->products;
  for (size_t i = 0; i < first.running.size() && HasEnded(first, first.running[i], in_flight);
       ++i) {
    std::array<const WarpgroupOperands*, kLanes> lanes;
    std::array<float*, kLanes> sums;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = &threads[lane]->products.running[i].operands;
      sums[lane] = FindSum(threads[lane]->products, lanes[lane]->d)->values.data();
    }
    const int warp = threads[0]->index / kLanes % 4;
    if (lanes[0]->dtype == DType::kBFloat16) {
      MultiplyWarpgroup<BFloat16>(lanes, warp, sums);
    } else {
      MultiplyWarpgroup<Float16>(lanes, warp, sums);
    }
  }
  for (Thread* const thread : threads) {
    WarpgroupProducts& products = thread->products;
    std::erase_if(products.running, [&](const WarpgroupProducts::Product& product) {
      return HasEnded(products, product, in_flight);
    });
    std::erase_if(products.sums, [&](const WarpgroupProducts::Sum& sum) {
      for (const WarpgroupProducts::Product& product : products.running) {
        if (product.operands.d == sum.d) return false;
      }
      std::memcpy(sum.d, sum.values.data(), sizeof(sum.values));
      return true;
    });
  }
}

Thread& ThreadOf(const char* name) {
  const Executor& executor = Executor::Get();
  if (executor.current() == nullptr) executor.Fail(absl::StrCat(name, " outside of a kernel"));
  return *executor.current();
}

}  // namespace

void StartWarpgroupProduct(const WarpgroupOperands& operands, const Location& location) {
  constexpr const char* kName = "WarpgroupProduct";
  Thread& thread = ThreadOf(kName);
  const Executor& executor = Executor::Get();
  WarpgroupProducts& products = thread.products;
  if (!products.has_arrived) executor.Fail("WarpgroupProduct without WarpgroupArrive before it");
  if (const Thread* const other = executor.UnfencedThread()) {
    executor.Fail(
        absl::StrCat("a product of the warpgroup reads shared memory while copies of thread ",
                     other->index, " are not visible to it: FenceAsyncProxy is missing"));
  }
  // Every lane answers for two rows of each tile.
  for (const void* const tile : {operands.a_tile, operands.b_tile}) {
    if (tile == nullptr) continue;
    const auto* const rows = static_cast<const unsigned char*>(tile) + Lane() * 256;
    CheckShared(rows, 256);
    RecordRead(rows, 256);
  }
  ++products.started;
  WarpgroupProducts::Sum* sum = FindSum(products, operands.d);
  if (sum == nullptr) {
    products.sums.push_back({.d = operands.d, .values = {}});
    sum = &products.sums.back();
    std::memcpy(sum->values.data(), operands.d, sizeof(sum->values));
  }
  std::memset(operands.d, 0xff, sizeof(sum->values));
  products.running.push_back({operands, products.groups});
  WarpOperation(
      kName, kFullMask, nullptr, [](void* const*) {}, location);
}

void FenceAsyncProxy() { ThreadOf("FenceAsyncProxy").has_unfenced_copies = false; }

void WarpgroupArrive(const Location& location) {
  ThreadOf("WarpgroupArrive").products.has_arrived = true;
  WarpOperation(
      "WarpgroupArrive", kFullMask, nullptr, [](void* const*) {}, location);
}

void WarpgroupCommit() { ++ThreadOf("WarpgroupCommit").products.groups; }

void WarpgroupWait(int groups_in_flight, const Location& location) {
  Thread& thread = ThreadOf("WarpgroupWait");
  thread.products.has_arrived = false;
  WaitOperand operand{&thread, groups_in_flight};
  WarpOperation("WarpgroupWait", kFullMask, &operand, &EndProducts, location);
}

void MultiplyFragments(const char* name, Fragments fragments, DType dtype, int depth,
                       const Location& location) {
  Combine combine = nullptr;
  if (dtype == DType::kBFloat16 && depth == 16) combine = &Multiply<BFloat16, 16>;
  if (dtype == DType::kFloat16 && depth == 16) combine = &Multiply<Float16, 16>;
  if (dtype == DType::kFloat16 && depth == 8) combine = &Multiply<Float16, 8>;
  if (combine == nullptr) throw Error("tensor cores multiply bfloat16 and float16");
  WarpOperation(name, kFullMask, &fragments, combine, location);
}

template <int kMatrices, bool kTransposed>
void LoadMatrices(const char* name, uint32_t* r, const void* row, const Location& location) {
  if (Lane() < 8 * kMatrices) {
    CheckAligned(row, 16);
    CheckShared(row, 16);
    RecordRead(row, 16);
  }
  MatrixRow operand{r, row};
  WarpOperation(name, kFullMask, &operand, &Load<kMatrices, kTransposed>, location);
}

template void LoadMatrices<4, false>(const char*, uint32_t*, const void*, const Location&);
template void LoadMatrices<4, true>(const char*, uint32_t*, const void*, const Location&);
template void LoadMatrices<2, false>(const char*, uint32_t*, const void*, const Location&);
template void LoadMatrices<2, true>(const char*, uint32_t*, const void*, const Location&);

}  // namespace dtrain::host_executor
