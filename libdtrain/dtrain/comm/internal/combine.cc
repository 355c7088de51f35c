// combine.cc - from types and instruction sets at run time to the one kernel.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/combine.h"

#include "dtrain/base/check.h"
#include "dtrain/comm/internal/combine_kernel.h"

namespace dtrain::internal {
namespace {

CombineOp OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return CombineOp::kSum;
    case ReduceOp::kMin:
      return CombineOp::kMin;
    case ReduceOp::kMax:
      return CombineOp::kMax;
    case ReduceOp::kProduct:
      return CombineOp::kProduct;
    case ReduceOp::kBitAnd:
      return CombineOp::kBitAnd;
  }
  return CombineOp::kSum;
}

}  // namespace

void Combine(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, int64_t count,
             int divisor, std::byte* out, std::byte* copy, bool copy_past_caches) {
  DT_CHECK(!sources.empty());
  const CombineArgs args{.op = OpOf(op),
                         .sources = sources.data(),
                         .num_sources = sources.size(),
                         .count = count,
                         .divisor = op == ReduceOp::kAverage ? divisor : 1,
                         .out = out,
                         .copy = copy,
                         .copy_past_caches = copy_past_caches};
  switch (dtype) {
    case DType::kFloat32:
      return CombineKernelCpu<float>(args);
    case DType::kFloat64:
      return CombineKernelCpu<double>(args);
    case DType::kBFloat16:
      return CombineKernelCpu<BFloat16>(args);
    case DType::kFloat16:
      return CombineKernelCpu<Float16>(args);
    case DType::kInt32:
      return CombineKernelCpu<int32_t>(args);
    case DType::kInt64:
      return CombineKernelCpu<int64_t>(args);
    case DType::kUint8:
      return CombineKernelCpu<uint8_t>(args);
  }
}

}  // namespace dtrain::internal
