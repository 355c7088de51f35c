// tile_gemm_kernel.h - packing and multiplying panels, with AMX or on 64-bit ARM with NEON.
// SPDX-License-Identifier: Apache-2.0
//
// c[m, n] (+)= a[m, k] b[k, n]. Both operands are first copied into panels. A panel has kPanelSides
// rows of a, or columns of b. It is stored as consecutive steps of kStepDepth summed elements,
// padded with zeros. On ARM a step is as neon_gemm_cpu.cc needs it. What follows is about AMX.
//
// A step is two tiles, each 16 rows of 64 bytes without gaps. Rows of a that already have the
// layout of whole panels need not be copied.
//
// AMX multiplies bfloat16. A float32 is the sum of three of them, each the rounded remainder of the
// previous ones: x = x0 + x1 + x2 with |x1| <= 2^-8 |x| and |x2| <= 2^-16 |x|. This is exact except
// below 2^-126, which AMX treats as 0. Three of the nine products of parts are at most 2^-24 and
// left out. The error is like that of rounding a sum of two float32:
//   x y = x0 y0 + (x0 y1 + x1 y0) + (x0 y2 + x1 y1 + x2 y0)
// (Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for
// higher-precision computations".) An infinity gives NaN.
#ifndef DTRAIN_OPS_INTERNAL_TILE_GEMM_KERNEL_H_
#define DTRAIN_OPS_INTERNAL_TILE_GEMM_KERNEL_H_

#include <cstdint>

#include "dtrain/base/dtype.h"

namespace dtrain {

#if defined(__aarch64__)
inline constexpr int64_t kPanelSides = 8;
inline constexpr int64_t kStepDepth = 4;  // number of summed elements in a step
#else
inline constexpr int64_t kPanelSides = 32;
inline constexpr int64_t kStepDepth = 32;
#endif
inline constexpr int64_t kStepElements = kPanelSides * kStepDepth;

// Number of bfloat16 values in an element that is packed for AMX.
inline constexpr int64_t TileParts(DType type) { return type == DType::kFloat32 ? 3 : 1; }

// Copies [sides, depth] to panels. With AMX, each step of float32 stores its three parts one after
// the other. Element (s, d) is from[s * stride + d], or from[d * stride + s] if depth_major.
struct TilePackArgs {
  const void* from;
  DType type;  // kBFloat16 or kFloat32
  int64_t stride;
  bool depth_major;
  bool right;  // true for columns of b, false for rows of a
  int64_t sides, depth;
  BFloat16* to;
};

// c[rows, columns] (+)= sums + a b + bias, for packed panels of `steps` steps. If a_stride is not
// 0, a is not packed: its rows, whole panels of whole steps, are a_stride elements apart (AMX
// only).
struct TileGemmArgs {
  const BFloat16 *a, *b;
  int64_t parts;  // size of an operand's packed element, in bfloat16 values
  int64_t a_stride;
  int64_t steps;
  int64_t rows, columns;
  void* c;
  int64_t c_stride;
  DType c_type;       // kFloat32 or kBFloat16
  const void* bias;   // [columns] in c's type, or null
  const float* sums;  // [rows, columns]: sums of the earlier parts of the summed dimension, or null
  int64_t sums_stride;
  bool accumulate;
};

#if defined(__x86_64__)
namespace cpu_avx512_bf16 {
// Only for CpuIsa::kAmxBf16.
void PackTilePanels(const TilePackArgs& args);
void MultiplyTilePanels(const TileGemmArgs& args);
}  // namespace cpu_avx512_bf16
#elif defined(__aarch64__)
namespace cpu_neon {
void PackTilePanels(const TilePackArgs& args);
void MultiplyTilePanels(const TileGemmArgs& args);
}  // namespace cpu_neon
namespace cpu_neon_bf16 {
void PackTilePanels(const TilePackArgs& args);
void MultiplyTilePanels(const TileGemmArgs& args);
}  // namespace cpu_neon_bf16
#endif

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_TILE_GEMM_KERNEL_H_
