// tile_gemm_kernel.h - the parts of a matrix product on the processor's matrix unit (AMX).
// SPDX-License-Identifier: Apache-2.0
//
// c[m, n] (+)= a[m, k] b[k, n]. Both operands are first copied into panels: kPanelSides rows of a,
// or columns of b, as steps of two tiles one behind the other, each 16 rows of 64 bytes without
// gaps, filled up with zeros. Rows of a that are whole panels as they lie may stay there.
//
// The unit multiplies bfloat16. A float32 is the sum of three of them, each the rounded rest of the
// ones before: x = x0 + x1 + x2 with |x1| <= 2^-8 |x| and |x2| <= 2^-16 |x|, exactly (but for what
// is below 2^-126, which the unit takes for 0). Of the nine products of parts the three of 2^-24
// and less are left out, which is as much as rounding a sum of two float32 loses:
//   x y = x0 y0 + (x0 y1 + x1 y0) + (x0 y2 + x1 y1 + x2 y0)
// (Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for
// higher-precision computations".) An infinity gives NaN.
#ifndef DTRAIN_OPS_INTERNAL_TILE_GEMM_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_TILE_GEMM_KERNEL_H_

#include <cstdint>

#include "dtrain/base/dtype.h"

namespace dtrain {

inline constexpr int64_t kPanelSides = 32;
inline constexpr int64_t kStepDepth = 32;  // elements of the summed extent
inline constexpr int64_t kStepElements = kPanelSides * kStepDepth;

// Numbers of bfloat16 that a packed element is.
inline constexpr int64_t TileParts(DType type) { return type == DType::kFloat32 ? 3 : 1; }

// Copies [sides, depth] to panels; of a step of float32, the parts one behind the other. Element
// (s, d) is from[s * stride + d], or where depth_major from[d * stride + s].
struct TilePackArgs {
  const void* from;
  DType type;  // kBFloat16 or kFloat32
  int64_t stride;
  bool depth_major;
  bool right;  // columns of b, else rows of a
  int64_t sides, depth;
  BFloat16* to;
};

// c[rows, columns] (+)= sums + a b + bias, of packed panels with `steps` each. Where a_stride is
// not 0, a is not packed: its rows, whole panels of whole steps, lie a_stride elements apart.
struct TileGemmArgs {
  const BFloat16 *a, *b;
  int64_t parts;  // TileParts() of what they were
  int64_t a_stride;
  int64_t steps;
  int64_t rows, columns;
  void* c;
  int64_t c_stride;
  DType c_type;       // kFloat32 or kBFloat16
  const void* bias;   // [columns] in c's type, or null
  const float* sums;  // [rows, columns], those of earlier parts of the summed extent, or null
  int64_t sums_stride;
  bool accumulate;
};

#if defined(__x86_64__)
namespace cpu_avx512_bf16 {
// For CpuIsa::kAmxBf16 alone.
void PackTilePanels(const TilePackArgs& args);
void MultiplyTilePanels(const TileGemmArgs& args);
}  // namespace cpu_avx512_bf16
#endif

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_TILE_GEMM_KERNEL_H_
