// row_partition.h - how the rows of a tensor are divided among ranks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_ROW_PARTITION_H_
#define DTRAIN_COMM_INTERNAL_ROW_PARTITION_H_

#include <cstdint>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {

// The rows that a reduce-scatter leaves on each of `ranks` ranks.
inline std::vector<int64_t> RowsOf(int64_t rows, int ranks) {
  std::vector<int64_t> of_ranks;
  for (int r = 0; r < ranks; ++r) of_ranks.push_back(rows / ranks + (r < rows % ranks ? 1 : 0));
  return of_ranks;
}

inline int64_t BytesOfRow(const Tensor& tensor) {
  int64_t elements = 1;
  for (int i = 1; i < tensor.shape().rank(); ++i) elements *= tensor.dim(i);
  return elements * static_cast<int64_t>(SizeOf(tensor.dtype()));
}

// NCCL scatters slots of the same size, so each rank's rows get one that holds the first rank's.
inline int64_t BytesOfSlots(const Tensor& tensor, int ranks) {
  return RowsOf(tensor.dim(0), ranks)[0] * BytesOfRow(tensor) * ranks;
}

// Running sums of `rows`, times `unit`.
inline std::vector<int64_t> Offsets(const std::vector<int64_t>& rows, int64_t unit) {
  std::vector<int64_t> offsets{0};
  for (const int64_t r : rows) offsets.push_back(offsets.back() + r * unit);
  return offsets;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_ROW_PARTITION_H_
