// ptx_twins.cc - tensor-core products and ldmatrix, gathered from and scattered to the lanes.
// SPDX-License-Identifier: Apache-2.0
#include "testing/host_executor/ptx_twins.h"

#include <cstring>

#include "testing/host_executor/cuda_language.h"

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

}  // namespace

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
