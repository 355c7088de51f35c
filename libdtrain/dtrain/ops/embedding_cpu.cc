// embedding_cpu.cc - looks up rows of the table, and adds their gradients in token order.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/embedding_kernel.h"
#include "dtrain/ops/internal/lanes.h"

namespace dtrain::DT_CPU_ISA {

template <typename T>
void EmbeddingForwardKernel(const EmbeddingForwardArgs& args) {
  DropoutStretch dropout(args.dropout);
  for (int64_t t = args.token_begin; t < args.token_end; ++t) {
    const T* const row = args.ids[t] == args.zero_id ? nullptr : Row<T>(args.table, args.ids[t]);
    const T* const position =
        args.positions.data == nullptr ? nullptr : Row<T>(args.positions, args.position_ids[t]);
    T* const out = Row<T>(args.out, t);
    const uint64_t first = FirstElement(args.dropout, t, args.columns);
    ForDropoutLanes(dropout, first, args.columns, [&](int64_t c, auto lanes, int64_t offset) {
      Vec value{};
      if (row != nullptr) value = Load(row + c, lanes) * args.scale;
      if (position != nullptr) value += Load(position + c, lanes);
      if (args.dropout.on) value = dropout.Apply(value, offset);
      Store(out + c, value, lanes);
    });
  }
}

template <typename T>
void EmbeddingBackwardKernel(const EmbeddingBackwardArgs& args) {
  DropoutStretch dropout(args.dropout);
  const int64_t columns = args.column_end - args.column_begin;
  for (int64_t t = 0; t < args.tokens; ++t) {
    float* const d_row = args.ids[t] == args.zero_id
                             ? nullptr
                             : Row<float>(args.d_table, args.ids[t]) + args.column_begin;
    float* const d_position =
        args.d_positions.data == nullptr
            ? nullptr
            : Row<float>(args.d_positions, args.position_ids[t]) + args.column_begin;
    if (d_row == nullptr && d_position == nullptr) continue;
    const T* const d_out = Row<T>(args.d_out, t) + args.column_begin;
    const uint64_t first =
        FirstElement(args.dropout, t, args.columns) + static_cast<uint64_t>(args.column_begin);
    ForDropoutLanes(dropout, first, columns, [&](int64_t c, auto lanes, int64_t offset) {
      Vec d = Load(d_out + c, lanes);
      if (args.dropout.on) d = dropout.Apply(d, offset);
      if (d_row != nullptr) Store(d_row + c, Load(d_row + c, lanes) + d * args.scale, lanes);
      if (d_position != nullptr) Store(d_position + c, Load(d_position + c, lanes) + d, lanes);
    });
  }
}

template void EmbeddingForwardKernel<float>(const EmbeddingForwardArgs&);
template void EmbeddingForwardKernel<BFloat16>(const EmbeddingForwardArgs&);
template void EmbeddingBackwardKernel<float>(const EmbeddingBackwardArgs&);
template void EmbeddingBackwardKernel<BFloat16>(const EmbeddingBackwardArgs&);

}  // namespace dtrain::DT_CPU_ISA
