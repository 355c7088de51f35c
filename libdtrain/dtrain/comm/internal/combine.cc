// combine.cc - from types and instruction sets at run time to the one kernel.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/combine.h"

#include "dtrain/base/check.h"
#include "dtrain/base/cpu_isa.h"
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

template <typename T>
void CombineAs(const CombineArgs& args) {
#if defined(__x86_64__)
  switch (BestCpuIsa()) {
    case CpuIsa::kAvx512:
      return cpu_avx512::CombineKernel<T>(args);
    case CpuIsa::kAvx2:
      return cpu_avx2::CombineKernel<T>(args);
    case CpuIsa::kGeneric:
      break;
  }
#endif
  cpu_generic::CombineKernel<T>(args);
}

}  // namespace

void Combine(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, int64_t count,
             int divisor, std::byte* out, std::byte* copy) {
  DT_CHECK(!sources.empty());
  const CombineArgs args{.op = OpOf(op),
                         .sources = sources.data(),
                         .num_sources = sources.size(),
                         .count = count,
                         .divisor = op == ReduceOp::kAverage ? divisor : 1,
                         .out = out,
                         .copy = copy};
  switch (dtype) {
    case DType::kFloat32:
      return CombineAs<float>(args);
    case DType::kFloat64:
      return CombineAs<double>(args);
    case DType::kBFloat16:
      return CombineAs<BFloat16>(args);
    case DType::kFloat16:
      return CombineAs<Float16>(args);
    case DType::kInt32:
      return CombineAs<int32_t>(args);
    case DType::kInt64:
      return CombineAs<int64_t>(args);
    case DType::kUint8:
      return CombineAs<uint8_t>(args);
  }
}

}  // namespace dtrain::internal
