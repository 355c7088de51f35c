// neon_gemm_cpu.cc - matrix products on 64-bit ARM: packing, multiplying, and storing the results.
// SPDX-License-Identifier: Apache-2.0
//
// C[8, 8] = sum over steps of A[8, 4] B[4, 8]. Half of the 32 registers hold sums, so that no
// multiplication waits for the one before, and both operands of a step are loaded once.
//
// A step of a float panel is stored as four rows of eight sides. Bfloat16 becomes float, unless the
// processor multiplies it (FEAT_BF16). Its instruction takes two sides of each operand with four
// summed elements, so that a step is stored as four such pairs of sides.
#include <type_traits>

#include "dtrain/ops/internal/lanes.h"
#include "dtrain/ops/internal/small_matrix.h"
#include "dtrain/ops/internal/tile_gemm_kernel.h"

namespace dtrain::DT_CPU_ISA {
namespace {

static_assert(kLanes == kStepDepth && 2 * kLanes == kPanelSides);

inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// ---- packing -----------------------------------------------------------------------------------

// Packs a whole step. `from` is its first element.
template <typename T>
inline void PackStep(const TilePackArgs& args, const T* from, float* to) {
  if (args.depth_major) {
#pragma GCC unroll 4
    for (int d = 0; d < kStepDepth; ++d) {
      Store(to + d * kPanelSides, Load(from + d * args.stride));
      Store(to + d * kPanelSides + kLanes, Load(from + d * args.stride + kLanes));
    }
    return;
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    Vec square[kLanes];
#pragma GCC unroll 4
    for (int i = 0; i < kLanes; ++i) square[i] = Load(from + (half * kLanes + i) * args.stride);
    TransposeSquare(square);
#pragma GCC unroll 4
    for (int d = 0; d < kLanes; ++d) Store(to + d * kPanelSides + half * kLanes, square[d]);
  }
}

#if defined(DT_NEON_BF16)

inline void PackStep(const TilePackArgs& args, const BFloat16* from, BFloat16* to) {
  auto* const bytes = reinterpret_cast<unsigned char*>(to);
  if (!args.depth_major) {
    constexpr size_t kSideBytes = kStepDepth * sizeof(BFloat16);
#pragma GCC unroll 8
    for (int s = 0; s < kPanelSides; ++s) {
      std::memcpy(bytes + static_cast<size_t>(s) * kSideBytes, from + s * args.stride, kSideBytes);
    }
    return;
  }
  uint16x8_t rows[kStepDepth];  // eight sides each
#pragma GCC unroll 4
  for (int d = 0; d < kStepDepth; ++d) {
    std::memcpy(&rows[d], from + d * args.stride, sizeof(rows[d]));
  }
  const auto pairs = [](uint16x8_t even, uint16x8_t odd) {
    return uint32x4x2_t{{vreinterpretq_u32_u16(vzip1q_u16(even, odd)),
                         vreinterpretq_u32_u16(vzip2q_u16(even, odd))}};
  };
  const uint32x4x2_t first = pairs(rows[0], rows[1]);
  const uint32x4x2_t last = pairs(rows[2], rows[3]);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const uint32x4_t low = vzip1q_u32(first.val[half], last.val[half]);
    const uint32x4_t high = vzip2q_u32(first.val[half], last.val[half]);
    std::memcpy(bytes + half * 32, &low, sizeof(low));
    std::memcpy(bytes + half * 32 + 16, &high, sizeof(high));
  }
}

#endif

// Copies a part of a step, and zeros behind it, to where PackStep() can read a whole one. Reads
// nothing outside of the part.
template <typename T>
inline void CopyPart(const TilePackArgs& args, const T* from, int64_t sides, int64_t depth,
                     T* whole) {
  std::memset(static_cast<void*>(whole), 0, kStepElements * sizeof(T));
  const int64_t rows = args.depth_major ? depth : sides;
  const int64_t columns = args.depth_major ? sides : depth;
  const int64_t row = args.depth_major ? kPanelSides : kStepDepth;
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(static_cast<void*>(whole + r * row), from + r * args.stride,
                static_cast<size_t>(columns) * sizeof(T));
  }
}

// Packs elements of type T as Packed.
template <typename T, typename Packed>
void Pack(const TilePackArgs& args, Packed* to) {
  const T* const from = static_cast<const T*>(args.from);
  const int64_t steps = (args.depth + kStepDepth - 1) / kStepDepth;
  const int64_t panels = (args.sides + kPanelSides - 1) / kPanelSides;
  TilePackArgs part = args;
  part.stride = args.depth_major ? kPanelSides : kStepDepth;
  const auto pack_step = [&](int64_t panel, int64_t step) {
    const int64_t side = panel * kPanelSides;
    const int64_t depth = step * kStepDepth;
    const T* const first =
        from + (args.depth_major ? depth * args.stride + side : side * args.stride + depth);
    Packed* const step_to = to + (panel * steps + step) * kStepElements;
    const int64_t sides_here = Smaller(kPanelSides, args.sides - side);
    const int64_t depth_here = Smaller(kStepDepth, args.depth - depth);
    if (sides_here == kPanelSides && depth_here == kStepDepth) {
      return PackStep(args, first, step_to);
    }
    T whole[kStepElements];
    CopyPart(args, first, sides_here, depth_here, whole);
    PackStep(part, whole, step_to);
  };
  // In the order of the rows in memory.
  if (args.depth_major) {
    for (int64_t step = 0; step < steps; ++step) {
      for (int64_t panel = 0; panel < panels; ++panel) pack_step(panel, step);
    }
  } else {
    for (int64_t panel = 0; panel < panels; ++panel) {
      for (int64_t step = 0; step < steps; ++step) pack_step(panel, step);
    }
  }
}

// ---- products ----------------------------------------------------------------------------------

template <int... kRow>
inline void AddOuterProduct(const float32x4_t (&a)[2], const float32x4_t (&b)[2],
                            float32x4_t (&sums)[kPanelSides][2],
                            std::integer_sequence<int, kRow...> /*rows*/) {
  ((sums[kRow][0] = vfmaq_laneq_f32(sums[kRow][0], b[0], a[kRow / kLanes], kRow % kLanes),
    sums[kRow][1] = vfmaq_laneq_f32(sums[kRow][1], b[1], a[kRow / kLanes], kRow % kLanes)),
   ...);
}

// Sums of a pair of panels, to [kPanelSides, kPanelSides].
inline void SumPanels(const float* a, const float* b, int64_t steps, float* to) {
  float32x4_t sums[kPanelSides][2] = {};
  for (int64_t d = 0; d < steps * kStepDepth; ++d) {
    const float32x4_t left[2] = {vld1q_f32(a), vld1q_f32(a + kLanes)};
    const float32x4_t right[2] = {vld1q_f32(b), vld1q_f32(b + kLanes)};
    AddOuterProduct(left, right, sums, std::make_integer_sequence<int, kPanelSides>{});
    a += kPanelSides;
    b += kPanelSides;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kPanelSides; ++r) {
    vst1q_f32(to + r * kPanelSides, sums[r][0]);
    vst1q_f32(to + r * kPanelSides + kLanes, sums[r][1]);
  }
}

#if defined(DT_NEON_BF16)

inline bfloat16x8_t LoadPair(const BFloat16* from) {
  bfloat16x8_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return pair;
}

inline void SumPanels(const BFloat16* a, const BFloat16* b, int64_t steps, float* to) {
  constexpr int kPairs = kPanelSides / 2;
  constexpr int kPairElements = 2 * kStepDepth;
  float32x4_t sums[kPairs][kPairs] = {};  // [2, 2] each
  for (int64_t s = 0; s < steps; ++s) {
    bfloat16x8_t right[kPairs];
#pragma GCC unroll 4
    for (int j = 0; j < kPairs; ++j) right[j] = LoadPair(b + j * kPairElements);
#pragma GCC unroll 4
    for (int i = 0; i < kPairs; ++i) {
      const bfloat16x8_t left = LoadPair(a + i * kPairElements);
#pragma GCC unroll 4
      for (int j = 0; j < kPairs; ++j) sums[i][j] = vbfmmlaq_f32(sums[i][j], left, right[j]);
    }
    a += kStepElements;
    b += kStepElements;
  }
#pragma GCC unroll 4
  for (int i = 0; i < kPairs; ++i) {
    float* const row = to + 2 * i * kPanelSides;
#pragma GCC unroll 2
    for (int j = 0; j < kPairs; j += 2) {
      const float64x2_t left = vreinterpretq_f64_f32(sums[i][j]);
      const float64x2_t right = vreinterpretq_f64_f32(sums[i][j + 1]);
      vst1q_f32(row + 2 * j, vreinterpretq_f32_f64(vzip1q_f64(left, right)));
      vst1q_f32(row + 2 * j + kPanelSides, vreinterpretq_f32_f64(vzip2q_f64(left, right)));
    }
  }
}

#endif

// Writes `sums` to the block of c at (row, column).
template <typename C>
inline void WriteBlock(const TileGemmArgs& args, const float* sums, int64_t row, int64_t column) {
  const int64_t rows = Smaller(kPanelSides, args.rows - row);
  const int64_t columns = Smaller(kPanelSides, args.columns - column);
  C* const c = static_cast<C*>(args.c) + row * args.c_stride + column;
  const C* const bias = args.bias == nullptr ? nullptr : static_cast<const C*>(args.bias) + column;
  const float* const earlier =
      args.sums == nullptr ? nullptr : args.sums + row * args.sums_stride + column;
  for (int64_t r = 0; r < rows; ++r) {
    ForLanes(0, columns, [&](int64_t i, auto lanes) {
      Vec value = Load(sums + r * kPanelSides + i);
      if (bias != nullptr) value += Load(bias + i, lanes);
      if (earlier != nullptr) value += Load(earlier + r * args.sums_stride + i, lanes);
      if (args.accumulate) value += Load(c + r * args.c_stride + i, lanes);
      Store(c + r * args.c_stride + i, value, lanes);
    });
  }
}

template <typename Packed, typename C>
void Multiply(const TileGemmArgs& args) {
  const auto* const a = reinterpret_cast<const Packed*>(args.a);
  const auto* const b = reinterpret_cast<const Packed*>(args.b);
  const int64_t panel = args.steps * kStepElements;
  alignas(64) float sums[kPanelSides * kPanelSides];
  // A panel of b stays in the first-level cache while all rows of a pass by.
  for (int64_t column = 0; column < args.columns; column += kPanelSides) {
    for (int64_t row = 0; row < args.rows; row += kPanelSides) {
      SumPanels(a + row / kPanelSides * panel, b + column / kPanelSides * panel, args.steps, sums);
      WriteBlock<C>(args, sums, row, column);
    }
  }
}

}  // namespace

void PackTilePanels(const TilePackArgs& args) {
  auto* const floats = reinterpret_cast<float*>(args.to);
  if (args.type == DType::kFloat32) return Pack<float>(args, floats);
#if defined(DT_NEON_BF16)
  Pack<BFloat16>(args, args.to);
#else
  Pack<BFloat16>(args, floats);
#endif
}

void MultiplyTilePanels(const TileGemmArgs& args) {
  const bool is_float = args.c_type == DType::kFloat32;
#if defined(DT_NEON_BF16)
  if (args.parts == 1) {
    return is_float ? Multiply<BFloat16, float>(args) : Multiply<BFloat16, BFloat16>(args);
  }
#endif
  is_float ? Multiply<float, float>(args) : Multiply<float, BFloat16>(args);
}

}  // namespace dtrain::DT_CPU_ISA
