// tile_panels.h - the panels that this processor multiplies, and sizes that suit its caches.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_TILE_PANELS_H_
#define DTRAIN_OPS_INTERNAL_TILE_PANELS_H_

#include "dtrain/base/cpu_isa.h"
#include "dtrain/ops/internal/tile_gemm_kernel.h"

namespace dtrain {

// left_elements and right_elements: bfloat16 values in the panels of a and b that a thread
// processes at once. whole_depth: a longer summed dimension is split into parts of depth_part.
// fewest_*: copying smaller operands to panels costs more than it saves. loads_rows: whether rows
// of a that have the layout of panels need no copy.
struct TilePanelSizes {
  int64_t left_elements, right_elements;
  int64_t whole_depth, depth_part;
  int64_t fewest_rows, fewest_columns, fewest_summed;
  bool loads_rows;
};

// HasTilePanels(): whether this processor's panels are multiplied; the others are for processors
// that have them. PackedParts(): size of a packed element of `type`, in bfloat16 values.
#if defined(__aarch64__)

// For second-level caches from 256 KiB on. A panel of each operand fits a first-level cache of 32
// KiB. All other ways to multiply are slower.
inline constexpr TilePanelSizes kTilePanelSizes = {1 << 16, 1 << 18, 384, 256, 1, 1, 1, false};

inline bool HasTilePanels() { return BestCpuIsa() >= CpuIsa::kNeon; }
inline int64_t PackedParts(DType type) {
  return type == DType::kBFloat16 && BestCpuIsa() >= CpuIsa::kNeonBf16 ? 1 : 2;
}
inline void PackPanels(const TilePackArgs& args) {
  BestCpuIsa() >= CpuIsa::kNeonBf16 ? cpu_neon_bf16::PackTilePanels(args)
                                    : cpu_neon::PackTilePanels(args);
}
inline void MultiplyPanels(const TileGemmArgs& args) {
  BestCpuIsa() >= CpuIsa::kNeonBf16 ? cpu_neon_bf16::MultiplyTilePanels(args)
                                    : cpu_neon::MultiplyTilePanels(args);
}

#else

// The fastest on a Xeon with 2 MiB of second-level cache per core.
inline constexpr TilePanelSizes kTilePanelSizes = {1 << 18, 1 << 20,     1024,       384,
                                                   64,      kPanelSides, kStepDepth, true};

inline bool HasTilePanels() { return BestCpuIsa() >= CpuIsa::kAmxBf16; }
inline int64_t PackedParts(DType type) { return TileParts(type); }
#if defined(__x86_64__)
inline void PackPanels(const TilePackArgs& args) { cpu_avx512_bf16::PackTilePanels(args); }
inline void MultiplyPanels(const TileGemmArgs& args) { cpu_avx512_bf16::MultiplyTilePanels(args); }
#else
inline void PackPanels(const TilePackArgs& /*args*/) {}
inline void MultiplyPanels(const TileGemmArgs& /*args*/) {}
#endif

#endif

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_TILE_PANELS_H_
