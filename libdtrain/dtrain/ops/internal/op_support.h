// op_support.h - what the .cc files of the ops share: checks of arguments, row blocks, scratch.
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

// Throws CheckError, naming the op and the tensor, unless `tensor` is there, has this shape and
// type and lives on the stream's device.
void CheckTensor(const char* op, const char* name, const Tensor& tensor, const Shape& shape,
                 DType dtype, const Stream& stream);
// The same for a tensor that may be absent.
void CheckOptional(const char* op, const char* name, const Tensor& tensor, const Shape& shape,
                   DType dtype, const Stream& stream);
void CheckRank(const char* op, const char* name, const Tensor& tensor, int rank);
void CheckContiguous(const char* op, const char* name, const Tensor& tensor);
// Every id of `ids` lies in [0, count).
void CheckIds(const char* op, const char* name, const Tensor& ids, int64_t count);

// Checks the probability, and the numbers of the rows.
DropoutDraw MakeDraw(const char* op, const Dropout& dropout, int64_t rows, const Stream& stream);
Rows RowsOf(const Tensor& tensor);

// Below this many elements per piece waking a thread costs more than it saves.
inline constexpr int64_t kGrainElements = 32768;
// Rows of a piece of parallel work.
inline int64_t RowGrain(int64_t columns) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, columns));
}

// Flat ranges are cut at multiples of this many elements: whole vectors and cache lines, so that an
// element is computed by the same code whatever the number of threads.
inline constexpr int64_t kVectorGroup = 64;
inline int64_t VectorGroups(int64_t elements) {
  return (elements + kVectorGroup - 1) / kVectorGroup;
}

// Cuts rows into blocks by their number alone. Column sums are formed per block and the blocks
// added in order, so that they do not depend on the number of threads.
class RowBlocks {
 public:
  explicit RowBlocks(int64_t rows)
      : rows_(rows), block_(std::max<int64_t>(16, (rows + kMaxBlocks - 1) / kMaxBlocks)) {}

  int64_t count() const { return (rows_ + block_ - 1) / block_; }
  int64_t begin(int64_t i) const { return i * block_; }
  int64_t end(int64_t i) const { return std::min(rows_, (i + 1) * block_); }
  // Blocks of a piece of parallel work.
  int64_t grain(int64_t columns) const { return std::max<int64_t>(1, RowGrain(columns) / block_); }

 private:
  static constexpr int64_t kMaxBlocks = 64;

  int64_t rows_;
  int64_t block_;
};

// Room for `count` values, contents undefined, until this thread's next call.
float* ThreadScratch(int64_t count);

// sums[c] += partials[0][c] + partials[1][c] + ...: `blocks` rows that lie `stride` apart. Does
// nothing where sums is null.
void AddBlockSums(const float* partials, int64_t blocks, int64_t stride, int64_t columns,
                  float* sums);

}  // namespace dtrain

#endif  // DTRAIN_OPS_INTERNAL_OP_SUPPORT_H_
