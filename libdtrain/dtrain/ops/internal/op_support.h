// op_support.h - helpers for the ops' .cc files: argument checks, blocks of rows, scratch.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_OP_SUPPORT_H_
#define DTRAIN_OPS_INTERNAL_OP_SUPPORT_H_

#include <algorithm>
#include <cstdint>

#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/dropout.h"
#include "dtrain/ops/internal/rows.h"

namespace dtrain {

// Throws CheckError, naming the op and the tensor, unless `tensor` is present, has this shape and
// type and is on the stream's device.
void CheckTensor(const char* op, const char* name, const Tensor& tensor, const Shape& shape,
                 DType dtype, const Stream& stream);
// Like CheckTensor(), for a tensor that may be absent.
void CheckOptional(const char* op, const char* name, const Tensor& tensor, const Shape& shape,
                   DType dtype, const Stream& stream);
void CheckRank(const char* op, const char* name, const Tensor& tensor, int rank);
void CheckContiguous(const char* op, const char* name, const Tensor& tensor);
// Checks that every id is in [0, count).
void CheckIds(const char* op, const char* name, const Tensor& ids, int64_t count);

// Checks the dropout's probability and row numbers, and prepares them for the kernels.
DropoutDraw MakeDraw(const char* op, const Dropout& dropout, int64_t rows, const Stream& stream);
Rows RowsOf(const Tensor& tensor);

// With fewer elements per piece than this, waking a thread costs more than it saves.
inline constexpr int64_t kGrainElements = 32768;
// Number of rows in a piece of parallel work.
inline int64_t RowGrain(int64_t columns) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, columns));
}

// Flat ranges are split at multiples of this many elements, which are whole vectors and cache
// lines. So the same code computes an element, whatever the number of threads.
inline constexpr int64_t kVectorGroup = 64;
inline int64_t VectorGroups(int64_t elements) {
  return (elements + kVectorGroup - 1) / kVectorGroup;
}

// Splits rows into blocks that depend only on the number of rows. Column sums are computed per
// block, and the blocks are added in order, so the result does not depend on the number of threads.
class RowBlocks {
 public:
  explicit RowBlocks(int64_t rows)
      : rows_(rows), block_(std::max<int64_t>(16, (rows + kMaxBlocks - 1) / kMaxBlocks)) {}

  int64_t count() const { return (rows_ + block_ - 1) / block_; }
  int64_t begin(int64_t i) const { return i * block_; }
  int64_t end(int64_t i) const { return std::min(rows_, (i + 1) * block_); }
  // Number of blocks in a piece of parallel work.
  int64_t grain(int64_t columns) const { return std::max<int64_t>(1, RowGrain(columns) / block_); }

 private:
  static constexpr int64_t kMaxBlocks = 64;

  int64_t rows_;
  int64_t block_;
};

// Memory for `count` values with undefined contents, valid until this thread's next call.
float* ThreadScratch(int64_t count);

// sums[c] += partials[0][c] + partials[1][c] + ..., for `blocks` rows that are `stride` apart. Does
// nothing if sums is null.
void AddBlockSums(const float* partials, int64_t blocks, int64_t stride, int64_t columns,
                  float* sums);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_OP_SUPPORT_H_
