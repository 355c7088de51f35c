// tile_gemm_cpu.cc - matrix products with AMX: packing, tile products, and storing the results.
// SPDX-License-Identifier: Apache-2.0
//
// C[32, 32] = sum over steps of A[32, 32] B[32, 32], computed as in tile_matrix.h. Sums are float32
// and rounded once, while the next sums are computed.
//
// In float32, a step consists of six products of bfloat16 parts, which stay in their tiles from one
// product to the next. It takes 384 cycles for three times the loads. This is why float32 gets
// closer to AMX's peak.
#include <type_traits>

#include "dtrain/ops/internal/small_matrix.h"
#include "dtrain/ops/internal/tile_gemm_kernel.h"
#include "dtrain/ops/internal/tile_matrix.h"

namespace dtrain::DT_CPU_ISA {
namespace {

constexpr int64_t kTileElements = 2 * kTileSide * kTileSide;

inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }

inline uint32_t LowBits(int64_t count) {
  return count >= 32 ? ~0u : (1u << static_cast<unsigned>(count)) - 1u;
}

// Loads `count` <= 16 elements; the rest are 0.
inline HalfVec LoadHalvesMasked(const BFloat16* from, int64_t count) {
  return reinterpret_cast<HalfVec>(
      _mm256_maskz_loadu_epi16(static_cast<__mmask16>(LowBits(count)), from));
}

// Loads `count` <= 32 elements as pairs of neighbours; the rest are 0.
inline Vec LoadPairsMasked(const BFloat16* from, int64_t count) {
  return reinterpret_cast<Vec>(_mm512_maskz_loadu_epi16(LowBits(count), from));
}

inline Vec LoadFloatsMasked(const float* from, int64_t count) {
  return reinterpret_cast<Vec>(
      _mm512_maskz_loadu_ps(static_cast<__mmask16>(LowBits(Larger(0, count))), from));
}

// Rounds 16 elements to bfloat16, and subtracts the result from `rest`.
inline HalfVec TakePart(Vec& rest) {
  const HalfVec part = Narrow(rest);
  rest -= Widen(part);
  return part;
}

// 16 rows of 16 pairs for each part: the contents of one tile per part. Elements outside of the
// matrix are not read.
struct Squares {
  Vec rows[TileParts(DType::kFloat32)][kLanes];
};

// Row i of the squares becomes the pairs of elements of two rows of memory, which have low_count
// and high_count elements.
inline void PairTwoRows(const BFloat16* low, const BFloat16* high, int64_t low_count,
                        int64_t high_count, int i, Squares& squares) {
  squares.rows[0][i] =
      MakePairs(LoadHalvesMasked(low, low_count), LoadHalvesMasked(high, high_count));
}
inline void PairTwoRows(const float* low, const float* high, int64_t low_count, int64_t high_count,
                        int i, Squares& squares) {
  Vec low_rest = LoadFloatsMasked(low, low_count);
  Vec high_rest = LoadFloatsMasked(high, high_count);
#pragma GCC unroll 3
  for (auto& part : squares.rows) {
    const HalfVec low_part = TakePart(low_rest);
    part[i] = MakePairs(low_part, TakePart(high_rest));
  }
}

// Row i of the squares becomes the pairs of neighbours of one row of memory with `count` elements.
inline void PairNeighbours(const BFloat16* row, int64_t count, int i, Squares& squares) {
  squares.rows[0][i] = LoadPairsMasked(row, count);
}
inline void PairNeighbours(const float* row, int64_t count, int i, Squares& squares) {
  Vec low = LoadFloatsMasked(row, count);
  Vec high = LoadFloatsMasked(row + kLanes, count - kLanes);
#pragma GCC unroll 3
  for (auto& part : squares.rows) {
    const auto halves =
        _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(high), reinterpret_cast<__m512>(low));
    part[i] = reinterpret_cast<Vec>(halves);
    HalfVec parts[2];
    std::memcpy(parts, &halves, sizeof(parts));
    low -= Widen(parts[0]);
    high -= Widen(parts[1]);
  }
}

// Reads `sides` <= 16 by `depth` <= 32 elements, and nothing outside of them.
template <typename T>
inline void LoadSquares(const TilePackArgs& args, const T* from, int64_t sides, int64_t depth,
                        Squares& squares) {
  for (int i = 0; i < kLanes; ++i) {
    if (args.depth_major) {
      const T* const row = from + 2 * i * args.stride;
      __builtin_prefetch(row + kPanelSides * args.stride);
      __builtin_prefetch(row + (kPanelSides + 1) * args.stride);
      PairTwoRows(row, row + args.stride, 2 * i < depth ? sides : 0, 2 * i + 1 < depth ? sides : 0,
                  i, squares);
    } else {
      const T* const row = from + i * args.stride;
      __builtin_prefetch(row + kPanelSides * args.stride);
      PairNeighbours(row, i < sides ? depth : 0, i, squares);
    }
  }
}

// Packs `sides` <= 16 by `depth` <= 32 elements into one tile, or one tile for each part.
template <typename T>
inline void PackTile(const TilePackArgs& args, const T* from, int64_t sides, int64_t depth,
                     BFloat16* to) {
  constexpr int64_t kParts = TileParts(kDTypeOf<T>);
  Squares squares;
  LoadSquares(args, from, sides, depth, squares);
#pragma GCC unroll 3
  for (int64_t part = 0; part < kParts; ++part) {
    Vec(&square)[kLanes] = squares.rows[part];
    // A right operand needs rows of pairs, a left operand needs rows of sides.
    if (args.depth_major != args.right) TransposeSquare(square);
    float* const tile = reinterpret_cast<float*>(to + part * kStepElements);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) Store(tile + i * kLanes, square[i]);
  }
}

// The place in c for the sums of a pair of panels, [32, 32].
template <typename C>
struct Block {
  C* c = nullptr;
  const C* bias = nullptr;         // may be null
  const float* earlier = nullptr;  // sums of the earlier parts; may be null
  int64_t rows = 0, columns = 0;
  int64_t written = 0;  // number of rows already written
};

inline void StoreRow(float* to, Vec low, Vec high, uint32_t mask) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), reinterpret_cast<__m512>(low));
  _mm512_mask_storeu_ps(to + kLanes, static_cast<__mmask16>(mask >> 16),
                        reinterpret_cast<__m512>(high));
}
inline void StoreRow(BFloat16* to, Vec low, Vec high, uint32_t mask) {
  const auto bits =
      _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(high), reinterpret_cast<__m512>(low));
  _mm512_mask_storeu_epi16(to, mask, reinterpret_cast<__m512i>(bits));
}

inline void LoadRow(const float* from, uint32_t mask, Vec& low, Vec& high) {
  low = reinterpret_cast<Vec>(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from));
  high = reinterpret_cast<Vec>(
      _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + kLanes));
}
inline void LoadRow(const BFloat16* from, uint32_t mask, Vec& low, Vec& high) {
  const auto half = [](const BFloat16* p, uint32_t bits) {
    return Widen(
        reinterpret_cast<HalfVec>(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(bits), p)));
  };
  low = half(from, mask);
  high = half(from + kLanes, mask >> 16);
}

// Writes up to `count` more rows of a block.
template <typename C>
inline void WriteRows(const TileGemmArgs& args, const float* sums, int64_t count, Block<C>& block) {
  const int64_t end = Smaller(block.rows, block.written + count);
  if (block.written >= end) return;
  const uint32_t mask = LowBits(block.columns);
  Vec bias_low{};
  Vec bias_high{};
  if (block.bias != nullptr) LoadRow(block.bias, mask, bias_low, bias_high);
  const bool adds = block.earlier != nullptr || args.accumulate;
  for (int64_t r = block.written; r < end; ++r) {
    C* const to = block.c + r * args.c_stride;
    Vec low = Load(sums + r * kPanelSides) + bias_low;
    Vec high = Load(sums + r * kPanelSides + kLanes) + bias_high;
    if (adds) {
      Vec more_low;
      Vec more_high;
      if (block.earlier != nullptr) {
        LoadRow(block.earlier + r * args.sums_stride, mask, more_low, more_high);
        low += more_low;
        high += more_high;
      }
      if (args.accumulate) {
        LoadRow(to, mask, more_low, more_high);
        low += more_low;
        high += more_high;
      }
    }
    StoreRow(to, low, high, mask);
  }
  block.written = end;
}

constexpr int64_t kTileBytes = 2 * kTileElements;
constexpr int64_t kPartBytes = 2 * kStepElements;  // one side of a step

inline const char* Bytes(const BFloat16* data) { return reinterpret_cast<const char*>(data); }

// The positions of a step's tiles, and the distances in bytes to the next step and to a's next
// panel.
struct Layout {
  explicit Layout(const TileGemmArgs& args) {
    const bool is_packed = args.a_stride == 0;
    const int64_t row = is_packed ? 64 : 2 * args.a_stride;
    tiles = {row, kTileSide * row, 64, kTileBytes};
    a_step = is_packed ? args.parts * kPartBytes : 64;
    a_panel = is_packed ? args.steps * a_step : kPanelSides * row;
  }
  TileLayout tiles;
  int64_t a_step, a_panel;
};

// Memory lines that are prefetched during the computation.
struct Fetch {
  const char* next;
  int64_t lines_a_step;
};

inline void LoadLeft(const char* a) {
  _tile_loadd(4, a, 64);
  _tile_loadd(5, a + kTileBytes, 64);
}
inline void LoadRight(const char* b) {
  _tile_loadd(6, b, 64);
  _tile_loadd(7, b + kTileBytes, 64);
}

// A float32 step: six products, ordered so that each loads only one new operand.
inline void MultiplyParts(const TileStep& step) {
  const auto [a, b] = step;
  LoadRight(b);
  LoadLeft(a + 2 * kPartBytes);
  MultiplyLoaded();
  LoadLeft(a + kPartBytes);
  MultiplyLoaded();
  LoadRight(b + kPartBytes);
  MultiplyLoaded();
  LoadLeft(a);
  MultiplyLoaded();
  LoadRight(b + 2 * kPartBytes);
  MultiplyLoaded();
  LoadRight(b);
  MultiplyLoaded();
}

// Computes the sums of one pair of panels. Meanwhile the sums of the previous block go to `sums`,
// from where write(n) stores n more rows. In bfloat16, `here` is already in its tiles, and
// afterwards `next` is.
//
// Addresses are separate variables. A struct in memory would be written member by member but read
// as a whole, and such a read waits for all earlier instructions.
template <int64_t kParts, typename Write>
inline void SumPanels(const TileGemmArgs& args, const Layout& layout, const TileStep& here,
                      const TileStep& next, float* sums, Fetch& fetch, const Write& write) {
  const int64_t steps = args.steps;
  const int64_t a_step = layout.a_step;
  // b's strides are constants, which need no registers.
  const TileLayout tiles = {layout.tiles.a_row, layout.tiles.a_second, 64, kTileBytes};
  const TileSums target = {sums, 4 * kPanelSides};
  const int64_t rows_a_step = kPanelSides / Larger(1, steps - 1) + 1;
  const char* a = here.a;
  const char* b = here.b;
  const char* fetched = fetch.next;
  for (int64_t s = 0; s < steps; ++s) {
    const char* const a_here = a;
    const char* const b_here = b;
    const bool is_last = s + 1 == steps;
    a = is_last ? next.a : a + a_step;
    b = is_last ? next.b : b + kParts * kPartBytes;
    TileMemoryBarrier();
    if constexpr (kParts == 1) {
      s == 0 ? StartBlock<false>({a, b}, tiles, target, target) : MultiplyStep({a, b}, tiles);
    } else {
      if (s == 0) {
        StoreSums(target);
        ZeroSums();
      }
      MultiplyParts({a_here, b_here});
    }
    TileMemoryBarrier();
    for (int64_t i = 0; i < fetch.lines_a_step; ++i) {
      __builtin_prefetch(fetched, 0, 2);
      fetched += 64;
    }
    if (s > 0) write(rows_a_step);
  }
  fetch.next = fetched;
  write(kPanelSides);
}

// Writes the previous block while it computes the next one.
template <int64_t kParts, typename C>
inline void SumAndWrite(const TileGemmArgs& args, const Layout& layout, const TileStep& here,
                        const TileStep& next, float* sums, Fetch& fetch, Block<C>& before) {
  if constexpr (std::is_same_v<C, BFloat16>) {
    // The common case: whole cache lines that only need rounding.
    if (before.columns == kPanelSides && before.earlier == nullptr && !args.accumulate) {
      Vec bias_low{};
      Vec bias_high{};
      if (before.bias != nullptr) {
        bias_low = Load(before.bias);
        bias_high = Load(before.bias + kLanes);
      }
      const float* from = sums;
      const float* const end = sums + before.rows * kPanelSides;
      BFloat16* to = before.c;
      return SumPanels<kParts>(args, layout, here, next, sums, fetch, [&](int64_t rows) {
        for (int64_t r = 0; r < rows && from < end; ++r) {
          StoreTwo(to, Load(from) + bias_low, Load(from + kLanes) + bias_high);
          from += kPanelSides;
          to += args.c_stride;
        }
      });
    }
  }
  SumPanels<kParts>(args, layout, here, next, sums, fetch,
                    [&](int64_t rows) { WriteRows(args, sums, rows, before); });
}

// Number of elements of b's panels that stay in the second-level cache while all rows of a are
// processed.
constexpr int64_t kRightElements = 1 << 18;

// The position of a block in c.
struct Position {
  int64_t first;  // first column of the current group of b's panels
  int64_t row, column;
};

// The next block, along a row of c: its lines are neighbours and on few pages.
inline Position After(const Position& p, const TileGemmArgs& args, int64_t wide) {
  const int64_t end = Smaller(p.first + wide, args.columns);
  if (p.column + kPanelSides < end) return {p.first, p.row, p.column + kPanelSides};
  if (p.row + kPanelSides < args.rows) return {p.first, p.row + kPanelSides, p.first};
  return {end, 0, end};
}

template <int64_t kParts, typename C>
void Multiply(const TileGemmArgs& args) {
  const TileScope scope;
  const Layout layout(args);
  const int64_t panel = args.steps * kParts * kStepElements;
  const int64_t wide = Larger(1, kRightElements / panel) * kPanelSides;
  const auto first_step = [&](const Position& p) -> TileStep {
    // After the last block, the first block's step is loaded instead; its result is not used.
    const int64_t column = p.column < args.columns ? p.column : 0;
    return {Bytes(args.a) + p.row / kPanelSides * layout.a_panel,
            Bytes(args.b + column / kPanelSides * panel)};
  };
  alignas(64) float sums[kPanelSides * kPanelSides];
  Block<C> before;
  Fetch fetch = {};
  TileStep here = first_step({0, 0, 0});
  TileMemoryBarrier();
  if constexpr (kParts == 1) LoadStep(here, layout.tiles);
  for (Position p = {0, 0, 0}; p.column < args.columns;) {
    if (p.column == p.first) {
      // Rows that are not packed come from memory, so the next panel's rows are prefetched
      // meanwhile.
      const int64_t passes =
          (Smaller(wide, args.columns - p.first) + kPanelSides - 1) / kPanelSides;
      fetch = {here.a + layout.a_panel,
               args.a_stride == 0 ? 0 : (kPanelSides + passes - 1) / passes};
    }
    const Position after = After(p, args, wide);
    const TileStep next = first_step(after);
    SumAndWrite<kParts>(args, layout, here, next, sums, fetch, before);
    before.c = static_cast<C*>(args.c) + p.row * args.c_stride + p.column;
    before.bias = args.bias == nullptr ? nullptr : static_cast<const C*>(args.bias) + p.column;
    before.earlier =
        args.sums == nullptr ? nullptr : args.sums + p.row * args.sums_stride + p.column;
    before.rows = Smaller(kPanelSides, args.rows - p.row);
    before.columns = Smaller(kPanelSides, args.columns - p.column);
    before.written = 0;
    p = after;
    here = next;
  }
  StoreSums({sums, 4 * kPanelSides});
  TileMemoryBarrier();
  WriteRows(args, sums, kPanelSides, before);
}

template <typename T>
void Pack(const TilePackArgs& args) {
  constexpr int64_t kParts = TileParts(kDTypeOf<T>);
  const T* const from = static_cast<const T*>(args.from);
  const int64_t steps = (args.depth + kStepDepth - 1) / kStepDepth;
  const int64_t panels = (args.sides + kPanelSides - 1) / kPanelSides;
  const auto pack_step = [&](int64_t panel, int64_t step) {
    const int64_t depth = step * kStepDepth;
    BFloat16* to = args.to + (panel * steps + step) * kParts * kStepElements;
    for (int64_t side = panel * kPanelSides; side < (panel + 1) * kPanelSides; side += kTileSide) {
      const int64_t first =
          args.depth_major ? depth * args.stride + side : side * args.stride + depth;
      PackTile(args, from + first, Larger(0, Smaller(kTileSide, args.sides - side)),
               Smaller(kStepDepth, args.depth - depth), to);
      to += kTileElements;
    }
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

}  // namespace

void PackTilePanels(const TilePackArgs& args) {
  args.type == DType::kFloat32 ? Pack<float>(args) : Pack<BFloat16>(args);
}

void MultiplyTilePanels(const TileGemmArgs& args) {
  if (args.parts == TileParts(DType::kFloat32)) return Multiply<3, float>(args);
  args.c_type == DType::kFloat32 ? Multiply<1, float>(args) : Multiply<1, BFloat16>(args);
}

}  // namespace dtrain::DT_CPU_ISA
