// op_support.cc - argument checks that name the op and the tensor, and sums over row blocks.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/op_support.h"

#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/ops/internal/reduce_kernel.h"

namespace dtrain {

void CheckTensor(const char* op, const char* name, const Tensor& tensor, const Shape& shape,
                 DType dtype, const Stream& stream) {
  DT_CHECK(tensor.shape() == shape)
      << op << ": " << name << " is " << tensor.shape() << ", must be " << shape;
  DT_CHECK(tensor || tensor.elements() == 0) << op << ": " << name << " is absent";
  DT_CHECK(tensor.dtype() == dtype)
      << op << ": " << name << " is " << Name(tensor.dtype()) << ", must be " << Name(dtype);
  DT_CHECK(tensor.device() == stream.device())
      << op << ": " << name << " is on " << DeviceName(tensor.device()) << ", the stream on "
      << DeviceName(stream.device());
}

void CheckOptional(const char* op, const char* name, const Tensor& tensor, const Shape& shape,
                   DType dtype, const Stream& stream) {
  if (tensor) CheckTensor(op, name, tensor, shape, dtype, stream);
}

void CheckRank(const char* op, const char* name, const Tensor& tensor, int rank) {
  DT_CHECK_EQ(tensor.shape().rank(), rank) << op << ": " << name << " is " << tensor.shape();
}

void CheckContiguous(const char* op, const char* name, const Tensor& tensor) {
  DT_CHECK(tensor.is_contiguous()) << op << ": " << name << " must be contiguous, its rows are "
                                   << tensor.row_stride() << " elements apart";
}

void CheckIds(const char* op, const char* name, const Tensor& ids, int64_t count) {
  const int32_t* const id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.elements(); ++i) {
    DT_CHECK(id[i] >= 0 && id[i] < count) << op << ": " << name << "[" << i << "] is " << id[i]
                                          << ", must be in [0, " << count << ")";
  }
}

DropoutDraw MakeDraw(const char* op, const Dropout& dropout, int64_t rows, const Stream& stream) {
  DT_CHECK(dropout.probability >= 0.0f && dropout.probability < 1.0f)
      << "dropout's probability is " << dropout.probability << ", must be in [0, 1)";
  CheckOptional(op, "row_numbers", dropout.row_numbers, {rows}, DType::kInt32, stream);
  return {.on = dropout.probability > 0.0f,
          .key = dropout.key,
          .device_step = dropout.device_step,
          .row_numbers = dropout.row_numbers ? dropout.row_numbers.data<int32_t>() : nullptr,
          .threshold = dropout.threshold(),
          .scale = dropout.scale()};
}

Rows RowsOf(const Tensor& tensor) { return {.data = tensor.raw(), .stride = tensor.row_stride()}; }

float* ThreadScratch(int64_t count) {
  // Grows to the largest request of the first step and keeps its memory, so later steps allocate
  // nothing.
  thread_local std::vector<float> scratch;
  if (static_cast<int64_t>(scratch.size()) < count) scratch.resize(static_cast<size_t>(count));
  return scratch.data();
}

void AddBlockSums(const float* partials, int64_t blocks, int64_t stride, int64_t columns,
                  float* sums) {
  if (sums == nullptr) return;
  ParallelFor(VectorGroups(columns),
              kGrainElements / (kVectorGroup * std::max<int64_t>(blocks, 1)) + 1,
              [&](int64_t begin, int64_t end) {
                AddBlockSumsKernelCpu<float>({.partials = partials,
                                              .blocks = blocks,
                                              .stride = stride,
                                              .column_begin = begin * kVectorGroup,
                                              .column_end = std::min(columns, end * kVectorGroup),
                                              .sums = sums});
              });
}

}  // namespace dtrain
