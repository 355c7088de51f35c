// layer_norm_cpu.cc - layer norm row by row; a row stays in the L1 cache for all of its passes.
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "dtrain/ops/internal/lanes.h"
#include "dtrain/ops/internal/layer_norm_kernel.h"

namespace dtrain::DT_CPU_ISA {
namespace {

// sum = residual + dropout(x + bias) for one row.
template <typename T>
void ResidualSum(const LayerNormForwardArgs& args, int64_t r, DropoutStretch& dropout) {
  const T* const x = Row<T>(args.x, r);
  const T* const bias = static_cast<const T*>(args.bias);
  const T* const residual = Row<T>(args.residual, r);
  T* const sum = Row<T>(args.sum, r);
  const uint64_t first = FirstElement(args.dropout, r, args.columns);
  ForDropoutLanes(dropout, first, args.columns, [&](int64_t c, auto lanes, int64_t offset) {
    Vec value = Load(x + c, lanes);
    if (bias != nullptr) value += Load(bias + c, lanes);
    if (args.dropout.on) value = dropout.Apply(value, offset);
    Store(sum + c, value + Load(residual + c, lanes), lanes);
  });
}

// Normalises one row of x. With and without beta are two functions, because the compiler may order
// sums as it likes in these files, and would order them differently where it sees both.
template <typename T, bool kBeta>
void Normalize(const LayerNormForwardArgs& args, int64_t r, const T* x) {
  const int64_t columns = args.columns;
  const float count = static_cast<float>(columns);
  const float mean =
      SumLanes(0, columns, [&](int64_t c, auto lanes) { return Load(x + c, lanes); }) / count;
  // The second pass costs little because the row is in the L1 cache. Unlike a difference of sums,
  // it cannot cancel.
  const float variance = SumLanes(0, columns,
                                  [&](int64_t c, auto lanes) {
                                    const Vec centred = Only(Load(x + c, lanes) - mean, lanes);
                                    return centred * centred;
                                  }) /
                         count;
  const float rstd = 1.0f / __builtin_sqrtf(variance + args.epsilon);
  T* const y = Row<T>(args.y, r);
  ForLanes(0, columns, [&](int64_t c, auto lanes) {
    const Vec normal = (Load(x + c, lanes) - mean) * rstd;
    if constexpr (kBeta) {
      Store(y + c, normal * Load(args.gamma + c, lanes) + Load(args.beta + c, lanes), lanes);
    } else {
      Store(y + c, normal * Load(args.gamma + c, lanes), lanes);
    }
  });
  args.mean[r] = mean;
  args.rstd[r] = rstd;
}

#if defined(__AVX512BF16__)

// Processes rows of bfloat16 as words of two columns. In that type, half of a row's cost are
// conversions. Here the pass that reads the row keeps it in float32 for the later passes. A few
// rows go through each pass together, so that none waits for its sums and its square root.
class SplitRows {
 public:
  static bool Fit(int64_t columns) { return columns % kSplitLanes == 0 && columns <= kMostColumns; }

  explicit SplitRows(const LayerNormForwardArgs& args) : args_(args), dropout_(args.dropout) {
    for (int64_t c = 0; c < args.columns; c += kSplitLanes) {
      for (int64_t i = 0; i < kLanes; ++i) {
        gamma_[c + i] = args.gamma[c + 2 * i];
        beta_[c + i] = args.beta == nullptr ? 0.0f : args.beta[c + 2 * i];
        gamma_[c + kLanes + i] = args.gamma[c + 2 * i + 1];
        beta_[c + kLanes + i] = args.beta == nullptr ? 0.0f : args.beta[c + 2 * i + 1];
      }
    }
  }

  void Forward() {
    for (int64_t r = args_.row_begin; r < args_.row_end; r += kRows) {
      const int64_t rows = args_.row_end - r < kRows ? args_.row_end - r : kRows;
      const float count = static_cast<float>(args_.columns);
      float* const mean = args_.mean + r;
      float* const rstd = args_.rstd + r;
      for (int64_t i = 0; i < rows; ++i) {
        mean[i] = (args_.sum.data == nullptr ? Read(r + i, i) : ReadSum(r + i, i)) / count;
      }
      for (int64_t i = 0; i < rows; ++i) {
        const float variance = SquaredDeviations(i, mean[i]) / count;
        rstd[i] = 1.0f / __builtin_sqrtf(variance + args_.epsilon);
      }
      for (int64_t i = 0; i < rows; ++i) Write(r + i, i, mean[i], rstd[i]);
    }
  }

 private:
  static constexpr int64_t kRows = 4;
  static constexpr int64_t kMostColumns = 1024;  // so that the rows being processed stay in the L1
                                                 // cache

  // Reads row r of x, keeps it as row i and returns its sum.
  float Read(int64_t r, int64_t i) {
    const BFloat16* const x = Row<BFloat16>(args_.x, r);
    SplitVec sums{};
    for (int64_t c = 0; c < args_.columns; c += kSplitLanes) {
      Keep(Split(LoadWords(x + c)), rows_[i] + c, sums);
    }
    return HorizontalSum(sums.even + sums.odd);
  }

  // Like Read(), for sum = residual + dropout(x + bias), which it also writes.
  float ReadSum(int64_t r, int64_t i) {
    const BFloat16* const x = Row<BFloat16>(args_.x, r);
    const BFloat16* const bias = static_cast<const BFloat16*>(args_.bias);
    const BFloat16* const residual = Row<BFloat16>(args_.residual, r);
    BFloat16* const sum = Row<BFloat16>(args_.sum, r);
    const uint64_t first = FirstElement(args_.dropout, r, args_.columns);
    SplitVec sums{};
    for (int64_t begin = 0; begin < args_.columns; begin += kStretch) {
      const int64_t end = begin + kStretch < args_.columns ? begin + kStretch : args_.columns;
      dropout_.Draw(first + static_cast<uint64_t>(begin), end - begin);
      for (int64_t c = begin; c < end; c += kSplitLanes) {
        SplitVec value = Split(LoadWords(x + c));
        if (bias != nullptr) value = value + Split(LoadWords(bias + c));
        if (args_.dropout.on) value = dropout_.Apply(value, c - begin);
        const UintVec rounded = Join(value + Split(LoadWords(residual + c)));
        StoreWords(sum + c, rounded);
        Keep(Split(rounded), rows_[i] + c, sums);
      }
    }
    return HorizontalSum(sums.even + sums.odd);
  }

  static void Keep(const SplitVec& value, float* to, SplitVec& sums) {
    Store(to, value.even);
    Store(to + kLanes, value.odd);
    sums = sums + value;
  }

  float SquaredDeviations(int64_t i, float mean) const {
    return SumLanes(0, args_.columns, [&](int64_t c, auto) {
      const Vec centred = Load(rows_[i] + c) - mean;
      return centred * centred;
    });
  }

  void Write(int64_t r, int64_t i, float mean, float rstd) {
    BFloat16* const y = Row<BFloat16>(args_.y, r);
    const auto normal = [&](int64_t c) {
      return (Load(rows_[i] + c) - mean) * rstd * Load(gamma_ + c) + Load(beta_ + c);
    };
    for (int64_t c = 0; c < args_.columns; c += kSplitLanes) {
      StoreWords(y + c, Join({normal(c), normal(c + kLanes)}));
    }
  }

  const LayerNormForwardArgs& args_;
  DropoutStretch dropout_;
  alignas(64) float gamma_[kMostColumns], beta_[kMostColumns];
  alignas(64) float rows_[kRows][kMostColumns];
};

#endif

struct RowGradient {
  float mean, rstd;
  float mean_g, mean_g_normal;  // means over the row of g and of g * normal, where g = dy * gamma
};

template <typename T>
RowGradient BackwardMeans(const LayerNormBackwardArgs& args, int64_t r) {
  const T* const dy = Row<T>(args.dy, r);
  const T* const x = Row<T>(args.x, r);
  RowGradient row = {.mean = args.mean[r], .rstd = args.rstd[r], .mean_g = 0, .mean_g_normal = 0};
  Vec sum_g{};
  Vec sum_g_normal{};
  ForLanes(0, args.columns, [&](int64_t c, auto lanes) {
    const Vec g = Load(dy + c, lanes) * Load(args.gamma + c, lanes);
    sum_g += g;
    sum_g_normal += g * ((Load(x + c, lanes) - row.mean) * row.rstd);
  });
  const float count = static_cast<float>(args.columns);
  row.mean_g = HorizontalSum(sum_g) / count;
  row.mean_g_normal = HorizontalSum(sum_g_normal) / count;
  return row;
}

// Columns [begin, end) of one row, at most kStretch of them: computes d_x = rstd (g - mean(g) -
// normal mean(g normal)) + d_residual, and everything that depends on it.
template <typename T, bool kBeta>
void BackwardStretch(const LayerNormBackwardArgs& args, int64_t r, const RowGradient& row,
                     int64_t begin, int64_t end, DropoutStretch& dropout) {
  const T* const dy = Row<T>(args.dy, r);
  const T* const x = Row<T>(args.x, r);
  const T* const d_residual =
      args.d_residual.data == nullptr ? nullptr : Row<T>(args.d_residual, r);
  T* const d_x = Row<T>(args.d_x, r);
  T* const d_dropped = args.d_dropped.data == nullptr ? nullptr : Row<T>(args.d_dropped, r);
  dropout.Draw(FirstElement(args.dropout, r, args.columns) + static_cast<uint64_t>(begin),
               end - begin);
  ForLanes(begin, end, [&](int64_t c, auto lanes) {
    const Vec d_y = Load(dy + c, lanes);
    const Vec normal = (Load(x + c, lanes) - row.mean) * row.rstd;
    Store(args.d_gamma + c, Load(args.d_gamma + c, lanes) + d_y * normal, lanes);
    if constexpr (kBeta) Store(args.d_beta + c, Load(args.d_beta + c, lanes) + d_y, lanes);
    const Vec g = d_y * Load(args.gamma + c, lanes);
    Vec d = (g - row.mean_g - normal * row.mean_g_normal) * row.rstd;
    if (d_residual != nullptr) d += Load(d_residual + c, lanes);
    Store(d_x + c, d, lanes);
    if (args.dropout.on) d = dropout.Apply(d, c - begin);
    if (d_dropped != nullptr) Store(d_dropped + c, d, lanes);
    if (args.d_bias != nullptr) Store(args.d_bias + c, Load(args.d_bias + c, lanes) + d, lanes);
  });
}

template <typename T, bool kBeta>
void ForwardRows(const LayerNormForwardArgs& args) {
  DropoutStretch dropout(args.dropout);
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    if (args.sum.data == nullptr) {
      Normalize<T, kBeta>(args, r, Row<T>(args.x, r));
    } else {
      ResidualSum<T>(args, r, dropout);
      Normalize<T, kBeta>(args, r, Row<T>(args.sum, r));
    }
  }
}

template <typename T, bool kBeta>
void BackwardRows(const LayerNormBackwardArgs& args) {
  ClearFloats(args.d_gamma, args.columns);
  if constexpr (kBeta) ClearFloats(args.d_beta, args.columns);
  if (args.d_bias != nullptr) ClearFloats(args.d_bias, args.columns);
  DropoutStretch dropout(args.dropout);
  // Processes a few rows at a time, which stay in the L2 cache, and within them one stretch of
  // columns at a time. So the column sums, gamma and the rows' stretches fit the L1 cache, however
  // many columns there are.
  constexpr int64_t kRows = 16;
  RowGradient rows[kRows];
  for (int64_t first = args.row_begin; first < args.row_end; first += kRows) {
    const int64_t count = args.row_end - first < kRows ? args.row_end - first : kRows;
    for (int64_t i = 0; i < count; ++i) rows[i] = BackwardMeans<T>(args, first + i);
    for (int64_t begin = 0; begin < args.columns; begin += kStretch) {
      const int64_t end = begin + kStretch < args.columns ? begin + kStretch : args.columns;
      for (int64_t i = 0; i < count; ++i) {
        BackwardStretch<T, kBeta>(args, first + i, rows[i], begin, end, dropout);
      }
    }
  }
}

}  // namespace

template <typename T>
void LayerNormForwardKernel(const LayerNormForwardArgs& args) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (SplitRows::Fit(args.columns)) return SplitRows(args).Forward();
  }
#endif
  if (args.beta == nullptr) return ForwardRows<T, false>(args);
  ForwardRows<T, true>(args);
}

template <typename T>
void LayerNormBackwardKernel(const LayerNormBackwardArgs& args) {
  if (args.d_beta == nullptr) return BackwardRows<T, false>(args);
  BackwardRows<T, true>(args);
}

template void LayerNormForwardKernel<float>(const LayerNormForwardArgs&);
template void LayerNormForwardKernel<BFloat16>(const LayerNormForwardArgs&);
template void LayerNormBackwardKernel<float>(const LayerNormBackwardArgs&);
template void LayerNormBackwardKernel<BFloat16>(const LayerNormBackwardArgs&);

}  // namespace dtrain::DT_CPU_ISA
