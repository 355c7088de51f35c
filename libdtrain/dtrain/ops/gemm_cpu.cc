// gemm_cpu.cc - matrix products by oneDNN: sgemm for float32, cached primitives for bfloat16.
// SPDX-License-Identifier: Apache-2.0
//
// Large products on processors with AMX, and all on 64-bit ARM, are in tile_gemm.cc instead.
//
// The number of tokens changes with every batch, and creating a oneDNN primitive costs as much as
// running it. sgemm needs no primitive. A bfloat16 product is therefore split along its tokens (the
// rows of a, or the summed dimension of a weight gradient) into pieces of 1024, 512, ... 16. So a
// few primitives serve every batch. The last piece, if shorter than 16, is padded with zeros.
#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/cpu_isa.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/ops/internal/cast_kernel.h"
#include "dtrain/ops/internal/gemm_kernel.h"
#include "dtrain/ops/internal/onednn.h"
#include "dtrain/ops/internal/thread_scratch.h"
#include "dtrain/ops/internal/tile_gemm.h"

namespace dtrain {
namespace {

constexpr int64_t kLargestPiece = 1024;
constexpr int64_t kSmallestPiece = 16;
constexpr size_t kScratchpadSlot = 2;   // slot of oneDNN's scratchpad; the padded operands use the
                                        // slots before
constexpr size_t kMaxPrimitives = 512;  // per thread; a model's step needs some tens
constexpr int64_t kCastGrain = 1 << 14;
constexpr int64_t kCollidingFloats = 512;  // 2 KiB, half of the 4 KiB after which a cache's sets
                                           // repeat
constexpr int64_t kSmallSide = 512;        // largest size for which spaced rows were faster in
                                           // measurements
constexpr int64_t kTokensAtOnce = 256;

bool OneDnnHas(dnnl::cpu_isa isa) {
  const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(isa);
  return (has & wanted) == wanted;
}

// ---- float32 -----------------------------------------------------------------------------------

void FillRowsWithBias(const GemmArgs& args) {
  float* const c = static_cast<float*>(args.c);
  const size_t bytes = static_cast<size_t>(args.n) * sizeof(float);
  ParallelFor(args.m, std::max<int64_t>(1, kCastGrain / args.n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(c + row * args.c_stride, args.bias, bytes);
    }
  });
}

void SgemmAsItLies(const GemmArgs& args) {
  if (args.bias != nullptr) FillRowsWithBias(args);
  const float beta = args.accumulate || args.bias != nullptr ? 1.0f : 0.0f;
  const dnnl_status_t status = dnnl_sgemm(
      args.transpose_a ? 'T' : 'N', args.transpose_b ? 'T' : 'N', args.m, args.n, args.k, 1.0f,
      static_cast<const float*>(args.a), args.a_stride, static_cast<const float*>(args.b),
      args.b_stride, beta, static_cast<float*>(args.c), args.c_stride);
  DT_CHECK(status == dnnl_success) << "dnnl_sgemm of " << args.m << " x " << args.n << " x "
                                   << args.k << " returned " << static_cast<int>(status);
}

// True if all rows begin in the same few lines of a first-level cache.
bool RowsCollide(int64_t stride) { return stride % kCollidingFloats == 0; }

int64_t SpacedStride(int64_t columns) { return RowsCollide(columns) ? columns + 16 : columns; }

// True for a small weight gradient whose rows collide, if oneDNN reads both operands in place. It
// does so without AVX-512.
bool GainsBySpacedRows(const GemmArgs& args) {
  static const bool reads_in_place = !OneDnnHas(dnnl::cpu_isa::avx512_core);
  return reads_in_place && args.transpose_a && !args.transpose_b &&
         std::min(args.m, args.n) <= kSmallSide &&
         (RowsCollide(args.a_stride) || RowsCollide(args.b_stride));
}

// c = a^T b, some tokens at a time. The rows are first copied to addresses that do not collide.
void SgemmOfSpacedRows(const GemmArgs& args) {
  GemmArgs piece = args;
  piece.a_stride = SpacedStride(args.m);
  piece.b_stride = SpacedStride(args.n);
  float* const a = ThreadScratch<float>(0, kTokensAtOnce * piece.a_stride);
  float* const b = ThreadScratch<float>(1, kTokensAtOnce * piece.b_stride);
  piece.a = a;
  piece.b = b;
  for (int64_t token = 0; token < args.k; token += kTokensAtOnce) {
    piece.k = std::min(kTokensAtOnce, args.k - token);
    const float* const from_a = static_cast<const float*>(args.a) + token * args.a_stride;
    const float* const from_b = static_cast<const float*>(args.b) + token * args.b_stride;
    ParallelFor(piece.k, std::max<int64_t>(1, kCastGrain / (args.m + args.n)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    std::copy_n(from_a + row * args.a_stride, args.m, a + row * piece.a_stride);
                    std::copy_n(from_b + row * args.b_stride, args.n, b + row * piece.b_stride);
                  }
                });
    SgemmAsItLies(piece);
    piece.accumulate = true;
    piece.bias = nullptr;
  }
}

void Sgemm(const GemmArgs& args) {
  GainsBySpacedRows(args) ? SgemmOfSpacedRows(args) : SgemmAsItLies(args);
}

// ---- bfloat16 on processors where oneDNN has no fast kernels: through float32 -------------------

struct Matrix {
  int64_t rows, columns, stride;
  // Row stride and size of the float32 copy.
  int64_t wide_stride() const { return SpacedStride(columns); }
  int64_t wide_size() const { return rows * wide_stride(); }
};

template <typename Body>
void ForRows(const Matrix& shape, const Body& body) {
  ParallelFor(shape.rows, std::max<int64_t>(1, kCastGrain / shape.columns),
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) body(row);
              });
}

void Widen(const BFloat16* x, const Matrix& shape, float* y) {
  ForRows(shape, [&](int64_t row) {
    CastKernelCpu<BFloat16>(
        {.x = x + row * shape.stride, .y = y + row * shape.wide_stride(), .n = shape.columns});
  });
}

void Narrow(const float* x, const Matrix& shape, BFloat16* y) {
  ForRows(shape, [&](int64_t row) {
    CastKernelCpu<float>({.x = x + row * shape.wide_stride(),
                          .y = y + row * shape.stride,
                          .to_bfloat16 = true,
                          .n = shape.columns});
  });
}

Matrix OperandA(const GemmArgs& g) {
  return {g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, g.a_stride};
}
Matrix OperandB(const GemmArgs& g) {
  return {g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, g.b_stride};
}

const float* WideB(const GemmArgs& args) {
  const Matrix b = OperandB(args);
  float* const wide = ThreadScratch<float>(1, b.wide_size());
  Widen(static_cast<const BFloat16*>(args.b), b, wide);
  return wide;
}

// Computes the product in float32 from a given float32 copy of b.
void RunThroughFloat(const GemmArgs& args, const float* wide_b) {
  const Matrix a = OperandA(args);
  const Matrix c = {args.m, args.n, args.c_stride};
  GemmArgs wide = args;
  float* const wide_a = ThreadScratch<float>(0, a.wide_size());
  Widen(static_cast<const BFloat16*>(args.a), a, wide_a);
  wide.a = wide_a;
  wide.a_stride = a.wide_stride();
  wide.b = wide_b;
  wide.b_stride = OperandB(args).wide_stride();
  const bool narrow_c = args.c_type == DType::kBFloat16;
  if (narrow_c) {
    wide.c = ThreadScratch<float>(2, c.wide_size());
    wide.c_stride = c.wide_stride();
    if (args.accumulate) Widen(static_cast<BFloat16*>(args.c), c, static_cast<float*>(wide.c));
    if (args.bias != nullptr) {
      float* const wide_bias = ThreadScratch<float>(3, args.n);
      Widen(static_cast<const BFloat16*>(args.bias), {1, args.n, args.n}, wide_bias);
      wide.bias = wide_bias;
    }
  }
  Sgemm(wide);
  if (narrow_c) Narrow(static_cast<float*>(wide.c), c, static_cast<BFloat16*>(args.c));
}

void* RowAt(const void* base, int64_t offset, DType type) {
  return static_cast<std::byte*>(const_cast<void*>(base)) +
         offset * static_cast<int64_t>(SizeOf(type));
}

// Processes some tokens at a time, so that the float32 copies take little memory. Tokens are rows
// of a and c, or the summed dimension of a weight gradient.
void GemmThroughFloat(const GemmArgs& args) {
  GemmArgs piece = args;
  if (!args.transpose_a) {
    const float* const wide_b = WideB(args);
    for (int64_t row = 0; row < args.m; row += piece.m) {
      piece.m = std::min(kLargestPiece, args.m - row);
      piece.a = RowAt(args.a, row * args.a_stride, DType::kBFloat16);
      piece.c = RowAt(args.c, row * args.c_stride, args.c_type);
      RunThroughFloat(piece, wide_b);
    }
    return;
  }
  const bool sums_in_float = args.c_type == DType::kFloat32 && !args.transpose_b;
  for (int64_t token = 0; token < args.k; token += piece.k) {
    piece.k = sums_in_float ? std::min(kLargestPiece, args.k - token) : args.k;
    piece.a = RowAt(args.a, token * args.a_stride, DType::kBFloat16);
    piece.b = RowAt(args.b, token * args.b_stride, DType::kBFloat16);
    RunThroughFloat(piece, WideB(piece));
    piece.accumulate = true;
    piece.bias = nullptr;
  }
}

bool HasFastBFloat16() {
  static const bool has =
      BestCpuIsa() >= CpuIsa::kAvx512 && OneDnnHas(dnnl::cpu_isa::avx512_core_bf16);
  return has;
}

// ---- bfloat16 by primitives ---------------------------------------------------------------------

// A matmul primitive and its memory objects, whose pointers are set for each run.
class Primitive {
 public:
  explicit Primitive(const GemmArgs& g) {
    using dnnl::memory;
    constexpr auto kBf16 = memory::data_type::bf16;
    const auto c_type = g.c_type == DType::kFloat32 ? memory::data_type::f32 : kBf16;
    const auto strides = [](int64_t stride, bool transposed) {
      return transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
    };
    const memory::desc a({g.m, g.k}, kBf16, strides(g.a_stride, g.transpose_a));
    const memory::desc b({g.k, g.n}, kBf16, strides(g.b_stride, g.transpose_b));
    const memory::desc c({g.m, g.n}, c_type, strides(g.c_stride, false));
    const memory::desc bias({1, g.n}, c_type, strides(g.n, false));
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (g.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc description = internal::DescribeMatmul(
        Engine(), a, b, g.bias != nullptr ? &bias : nullptr, c, attributes);
    matmul_ = dnnl::matmul(description);
    const auto add = [&](int name, const memory::desc& desc) {
      arguments_.emplace(name, memory(desc, Engine(), DNNL_MEMORY_NONE));
    };
    add(DNNL_ARG_SRC, a);
    add(DNNL_ARG_WEIGHTS, b);
    add(DNNL_ARG_DST, c);
    if (g.bias != nullptr) add(DNNL_ARG_BIAS, bias);
    add(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
    scratchpad_bytes_ = static_cast<int64_t>(description.scratchpad_desc().get_size());
  }

  void Run(const GemmArgs& g) {
    arguments_.at(DNNL_ARG_SRC).set_data_handle(const_cast<void*>(g.a));
    arguments_.at(DNNL_ARG_WEIGHTS).set_data_handle(const_cast<void*>(g.b));
    arguments_.at(DNNL_ARG_DST).set_data_handle(g.c);
    if (g.bias != nullptr) {
      arguments_.at(DNNL_ARG_BIAS).set_data_handle(const_cast<void*>(g.bias));
    }
    arguments_.at(DNNL_ARG_SCRATCHPAD)
        .set_data_handle(ThreadScratch<std::byte>(kScratchpadSlot, scratchpad_bytes_));
    matmul_.execute(CpuStream(), arguments_);
  }

 private:
  static const dnnl::engine& Engine() {
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
  }
  static const dnnl::stream& CpuStream() {
    thread_local const dnnl::stream stream(Engine());
    return stream;
  }

  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> arguments_;
  int64_t scratchpad_bytes_ = 0;
};

// Runs one piece with this thread's primitive for its shape.
void RunPiece(const GemmArgs& g) {
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int>;
  thread_local std::map<Key, Primitive> cache;
  const int flags = (g.transpose_a ? 1 : 0) | (g.transpose_b ? 2 : 0) | (g.accumulate ? 4 : 0) |
                    (g.bias != nullptr ? 8 : 0) | (g.c_type == DType::kFloat32 ? 16 : 0);
  const Key key(g.m, g.n, g.k, g.a_stride, g.b_stride, g.c_stride, flags);
  auto found = cache.find(key);
  if (found == cache.end()) {
    if (cache.size() >= kMaxPrimitives) cache.clear();
    found = cache.emplace(key, Primitive(g)).first;
  }
  found->second.Run(g);
}

int64_t PieceSize(int64_t left) {
  const int64_t floor = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(left)));
  return std::min(floor, kLargestPiece);
}

// Copies `rows` rows of a matrix to scratch memory and appends zeros up to kSmallestPiece rows.
const void* PadRows(const void* from, int64_t rows, int64_t columns, int64_t stride, size_t slot) {
  BFloat16* const to = ThreadScratch<BFloat16>(slot, kSmallestPiece * columns);
  const BFloat16* const x = static_cast<const BFloat16*>(from);
  for (int64_t r = 0; r < kSmallestPiece; ++r) {
    if (r < rows) {
      std::copy_n(x + r * stride, columns, to + r * columns);
    } else {
      std::fill_n(to + r * columns, columns, BFloat16(0.0f));
    }
  }
  return to;
}

// Computes the last rows, fewer than a piece, on a padded copy.
void RunRowTail(const GemmArgs& piece) {
  GemmArgs padded = piece;
  padded.m = kSmallestPiece;
  padded.a = PadRows(piece.a, piece.m, piece.k, piece.a_stride, 0);
  padded.a_stride = piece.k;
  padded.c_stride = piece.n;
  const size_t size = SizeOf(piece.c_type);
  std::byte* const c =
      ThreadScratch<std::byte>(1, kSmallestPiece * piece.n * static_cast<int64_t>(size));
  padded.c = c;
  const size_t row_bytes = static_cast<size_t>(piece.n) * size;
  if (piece.accumulate) {
    std::memset(c, 0, kSmallestPiece * row_bytes);
    for (int64_t r = 0; r < piece.m; ++r) {
      std::memcpy(c + static_cast<size_t>(r) * row_bytes,
                  RowAt(piece.c, r * piece.c_stride, piece.c_type), row_bytes);
    }
  }
  RunPiece(padded);
  for (int64_t r = 0; r < piece.m; ++r) {
    std::memcpy(RowAt(piece.c, r * piece.c_stride, piece.c_type),
                c + static_cast<size_t>(r) * row_bytes, row_bytes);
  }
}

// Computes rows [begin, end) of c, with a not transposed.
void RunRows(const GemmArgs& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end;) {
    GemmArgs piece = args;
    piece.m = PieceSize(end - row);
    if (piece.m < kSmallestPiece) piece.m = end - row;
    piece.a = RowAt(args.a, row * args.a_stride, DType::kBFloat16);
    piece.c = RowAt(args.c, row * args.c_stride, args.c_type);
    piece.m < kSmallestPiece ? RunRowTail(piece) : RunPiece(piece);
    row += piece.m;
  }
}

// Computes rows [begin, end) of c = a^T b. Both a and b have a row per token; c is float32.
void RunWeightRows(const GemmArgs& args, int64_t begin, int64_t end) {
  for (int64_t token = 0; token < args.k;) {
    GemmArgs piece = args;
    piece.m = end - begin;
    piece.k = PieceSize(args.k - token);
    if (piece.k < kSmallestPiece) piece.k = args.k - token;
    piece.a = RowAt(args.a, token * args.a_stride + begin, DType::kBFloat16);
    piece.b = RowAt(args.b, token * args.b_stride, DType::kBFloat16);
    piece.c = RowAt(args.c, begin * args.c_stride, args.c_type);
    piece.accumulate = args.accumulate || token > 0;
    token += piece.k;
    if (piece.k < kSmallestPiece) {
      piece.a = PadRows(piece.a, piece.k, piece.m, piece.a_stride, 0);
      piece.b = PadRows(piece.b, piece.k, piece.n, piece.b_stride, 1);
      piece.a_stride = piece.m;
      piece.b_stride = piece.n;
      piece.k = kSmallestPiece;
    }
    RunPiece(piece);
  }
}

void GemmByPrimitives(const GemmArgs& args) {
  const bool over_tokens = args.transpose_a && !args.transpose_b && args.c_type == DType::kFloat32;
  if (args.transpose_a && !over_tokens) return RunPiece(args);
  // Each thread takes whole groups of kSmallestPiece rows of c.
  const int64_t groups = (args.m + kSmallestPiece - 1) / kSmallestPiece;
  ParallelFor(groups, 2, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kSmallestPiece;
    const int64_t last = std::min(end * kSmallestPiece, args.m);
    over_tokens ? RunWeightRows(args, first, last) : RunRows(args, first, last);
  });
}

}  // namespace

template <>
void GemmCpu<float>(const GemmArgs& args) {
  GainsByTiles(args) ? GemmByTiles(args, DType::kFloat32) : Sgemm(args);
}

template <>
void GemmCpu<BFloat16>(const GemmArgs& args) {
  if (GainsByTiles(args)) return GemmByTiles(args, DType::kBFloat16);
  HasFastBFloat16() ? GemmByPrimitives(args) : GemmThroughFloat(args);
}

}  // namespace dtrain
