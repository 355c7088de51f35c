// embedding.cc - checks ids and shapes; forward splits tokens among threads, backward columns.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/embedding.h"

#include <cmath>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/embedding_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {
namespace {

void CheckTokens(const char* op, const Tensor& ids, const Tensor& position_ids,
                 const Tensor& positions, const Tensor& out, const Stream& stream) {
  CheckRank(op, "ids", ids, 1);
  CheckTensor(op, "ids", ids, ids.shape(), DType::kInt32, stream);
  if (positions) CheckTensor(op, "position_ids", position_ids, ids.shape(), DType::kInt32, stream);
  CheckRank(op, "the table", out, 2);
}

}  // namespace

void EmbeddingForward(const Tensor& ids, const Tensor& position_ids, const Tensor& table,
                      const Tensor& positions, const EmbeddingOptions& options, Tensor& out,
                      Stream& stream) {
  constexpr const char* kOp = "EmbeddingForward";
  CheckTokens(kOp, ids, position_ids, positions, table, stream);
  const int64_t tokens = ids.dim(0);
  const int64_t columns = table.dim(1);
  CheckTensor(kOp, "table", table, table.shape(), table.dtype(), stream);
  if (positions) {
    CheckRank(kOp, "positions", positions, 2);
    CheckTensor(kOp, "positions", positions, {positions.dim(0), columns}, table.dtype(), stream);
  }
  CheckTensor(kOp, "out", out, {tokens, columns}, table.dtype(), stream);
  const EmbeddingForwardArgs args = {
      .ids = ids.data<int32_t>(),
      .position_ids = positions ? position_ids.data<int32_t>() : nullptr,
      .table = RowsOf(table),
      .positions = RowsOf(positions),
      .out = RowsOf(out),
      .scale = options.scale,
      .zero_id = options.zero_id,
      .dropout = MakeDraw(kOp, options.dropout, ids.elements(), stream),
      .columns = columns};
  DispatchFloat(table, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      CheckIds(kOp, "ids", ids, table.dim(0));
      if (positions) CheckIds(kOp, "position_ids", position_ids, positions.dim(0));
      ParallelFor(tokens, RowGrain(columns), [&](int64_t begin, int64_t end) {
        EmbeddingForwardArgs piece = args;
        piece.token_begin = begin;
        piece.token_end = end;
        EmbeddingForwardKernelCpu<T>(piece);
      });
    } else {
      EmbeddingForwardArgs all = args;
      all.token_end = tokens;
      EmbeddingForwardKernelCuda<T>(all, stream);
    }
  });
}

void EmbeddingBackward(const Tensor& d_out, const Tensor& ids, const Tensor& position_ids,
                       const EmbeddingOptions& options, Tensor& d_table, Tensor& d_positions,
                       Stream& stream) {
  constexpr const char* kOp = "EmbeddingBackward";
  CheckTokens(kOp, ids, position_ids, d_positions, d_table, stream);
  const int64_t tokens = ids.dim(0);
  const int64_t columns = d_table.dim(1);
  CheckTensor(kOp, "d_out", d_out, {tokens, columns}, d_out.dtype(), stream);
  CheckTensor(kOp, "d_table", d_table, d_table.shape(), DType::kFloat32, stream);
  if (d_positions) {
    CheckRank(kOp, "d_positions", d_positions, 2);
    CheckTensor(kOp, "d_positions", d_positions, {d_positions.dim(0), columns}, DType::kFloat32,
                stream);
  }
  const EmbeddingBackwardArgs args = {
      .d_out = RowsOf(d_out),
      .ids = ids.data<int32_t>(),
      .position_ids = d_positions ? position_ids.data<int32_t>() : nullptr,
      .d_table = RowsOf(d_table),
      .d_positions = RowsOf(d_positions),
      .scale = options.scale,
      .zero_id = options.zero_id,
      .dropout = MakeDraw(kOp, options.dropout, ids.elements(), stream),
      .tokens = tokens,
      .columns = columns};
  DispatchFloat(d_out, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      CheckIds(kOp, "ids", ids, d_table.dim(0));
      if (d_positions) CheckIds(kOp, "position_ids", position_ids, d_positions.dim(0));
      // Columns are independent, so each thread adds some of them over all tokens in order. Groups
      // of kGroup columns keep threads on separate cache lines and vectors whole.
      constexpr int64_t kGroup = 32;
      const int64_t groups = (columns + kGroup - 1) / kGroup;
      ParallelFor(groups, kGrainElements / (kGroup * std::max<int64_t>(1, tokens)) + 1,
                  [&](int64_t begin, int64_t end) {
                    EmbeddingBackwardArgs piece = args;
                    piece.column_begin = begin * kGroup;
                    piece.column_end = std::min(columns, end * kGroup);
                    EmbeddingBackwardKernelCpu<T>(piece);
                  });
    } else {
      EmbeddingBackwardKernelCuda<T>(args, stream);
    }
  });
}

void FillSinusoids(Tensor& table, Stream& stream) {
  constexpr const char* kOp = "FillSinusoids";
  CheckRank(kOp, "table", table, 2);
  const int64_t hidden = table.dim(1);
  CheckTensor(kOp, "table", table, table.shape(), table.dtype(), stream);
  DT_CHECK_EQ(hidden % 2, 0) << kOp << ": the number of columns must be even";
  DispatchFloat(table, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      const int64_t half = hidden / 2;
      for (int64_t p = 0; p < table.dim(0); ++p) {
        T* const row = table.data<T>() + p * table.row_stride();
        for (int64_t i = 0; i < half; ++i) {
          const double angle =
              static_cast<double>(p) /
              std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(hidden));
          row[i] = T(static_cast<float>(std::sin(angle)));
          row[half + i] = T(static_cast<float>(std::cos(angle)));
        }
      }
    } else {
      FillSinusoidsKernelCuda<T>(RowsOf(table), table.dim(0), hidden, stream);
    }
  });
}

}  // namespace dtrain
