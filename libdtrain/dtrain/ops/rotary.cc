// rotary.cc - fills the table of angles, checks the arguments and splits rows among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/rotary.h"

#include <cmath>
#include <span>
#include <vector>

#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/op_support.h"
#include "dtrain/ops/internal/rotary_kernel.h"

namespace dtrain {
namespace {

void CheckTable(const char* op, const Tensor& table, const Stream& stream) {
  CheckRank(op, "table", table, 2);
  CheckTensor(op, "table", table, table.shape(), DType::kFloat32, stream);
  CheckContiguous(op, "table", table);
  DT_CHECK(table.dim(1) > 0 && table.dim(1) % 2 == 0)
      << op << ": a head has " << table.dim(1) << " columns, must be even";
}

void Turn(const char* op, const Tensor& table, const Tensor& position_ids, float direction,
          Tensor& x, Stream& stream) {
  CheckTable(op, table, stream);
  CheckRank(op, "x", x, 2);
  CheckTensor(op, "x", x, x.shape(), x.dtype(), stream);
  CheckTensor(op, "position_ids", position_ids, {x.dim(0)}, DType::kInt32, stream);
  DT_CHECK_EQ(x.dim(1) % table.dim(1), 0)
      << op << ": x has " << x.dim(1) << " columns, which are no whole heads of " << table.dim(1);
  const RotaryArgs args = {.x = RowsOf(x),
                           .table = table.data<float>(),
                           .position_ids = position_ids.data<int32_t>(),
                           .direction = direction,
                           .columns = x.dim(1),
                           .head_dim = table.dim(1)};
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      CheckIds(op, "position_ids", position_ids, table.dim(0));
      ParallelFor(x.dim(0), RowGrain(x.dim(1)), [&](int64_t begin, int64_t end) {
        RotaryArgs piece = args;
        piece.row_begin = begin;
        piece.row_end = end;
        RotaryKernelCpu<T>(piece);
      });
    } else {
      RotaryArgs all = args;
      all.row_end = x.dim(0);
      RotaryKernelCuda<T>(all, stream);
    }
  });
}

}  // namespace

void FillRotaryTable(float theta, Tensor& table, Stream& stream) {
  CheckTable("FillRotaryTable", table, stream);
  const int64_t head_dim = table.dim(1);
  const int64_t half = head_dim / 2;
  std::vector<float> values(static_cast<size_t>(table.elements()));
  for (int64_t k = 0; k < half; ++k) {
    const float exponent = static_cast<float>(2 * k) / static_cast<float>(head_dim);
    const float frequency = 1.0f / static_cast<float>(std::pow(static_cast<double>(theta),
                                                               static_cast<double>(exponent)));
    for (int64_t p = 0; p < table.dim(0); ++p) {
      const float angle = static_cast<float>(p) * frequency;
      float* const row = values.data() + p * head_dim;
      row[k] = static_cast<float>(std::cos(static_cast<double>(angle)));
      row[half + k] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
  // Filled on the host for both devices, so that both have the same bits.
  Upload(std::span<const float>(values), table, stream);
}

void RotaryForward(const Tensor& table, const Tensor& position_ids, Tensor& x, Stream& stream) {
  Turn("RotaryForward", table, position_ids, 1.0f, x, stream);
}

void RotaryBackward(const Tensor& table, const Tensor& position_ids, Tensor& dx, Stream& stream) {
  Turn("RotaryBackward", table, position_ids, -1.0f, dx, stream);
}

}  // namespace dtrain
