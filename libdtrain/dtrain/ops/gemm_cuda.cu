// gemm_cuda.cu - matrix products by cuBLASLt: one plan per shape, made once.
// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt counts columns first, so what it is asked for is c^T = op(b)^T op(a)^T: its first
// operand is our b. A bias per output feature is then one value per row of c^T, which is what its
// bias epilogue adds.
#include <array>
#include <map>
#include <memory>
#include <tuple>

#include "dtrain/device/cuda/check.h"
#include "dtrain/device/cuda/cublaslt.h"
#include "dtrain/ops/internal/gemm_kernel.h"

namespace dtrain {
namespace {

using cuda::CublasLt;

// NVIDIA's advice for Hopper; smaller GPUs need less and lose nothing.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

cudaDataType_t CudaType(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

// The largest power of two up to 16 that divides an address: algorithms with wide accesses need it.
uint32_t AlignmentOf(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  uint32_t alignment = 16;
  while (value % alignment != 0) alignment /= 2;
  return alignment;
}

// Everything the choice of an algorithm depends on.
using PlanKey = std::tuple<int, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool,
                           bool, bool, DType, DType, uint32_t, uint32_t, uint32_t>;

template <typename T>
PlanKey KeyOf(const GemmArgs& args, const Stream& stream) {
  return {stream.device().index,
          args.m,
          args.n,
          args.k,
          args.a_stride,
          args.b_stride,
          args.c_stride,
          args.transpose_a,
          args.transpose_b,
          args.accumulate,
          args.bias != nullptr,
          kDTypeOf<T>,
          args.c_type,
          AlignmentOf(args.a),
          AlignmentOf(args.b),
          AlignmentOf(args.c)};
}

// Destroys what cuBLASLt made, by the function for its type.
template <auto kDestroy>
struct Destroyer {
  template <typename Object>
  void operator()(Object* object) const {
    static_cast<void>((CublasLt::Get().*kDestroy)(object));
  }
};
using Operation =
    std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroyer<&CublasLt::MatmulDescDestroy>>;
using Layout =
    std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroyer<&CublasLt::MatrixLayoutDestroy>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                                   Destroyer<&CublasLt::MatmulPreferenceDestroy>>;

// A matrix stored row by row, seen column by column.
Layout MakeLayout(DType dtype, int64_t rows, int64_t columns, int64_t stride) {
  const CublasLt& lt = CublasLt::Get();
  cublasLtMatrixLayout_t layout = nullptr;
  lt.Check(lt.MatrixLayoutCreate(&layout, CudaType(dtype), static_cast<uint64_t>(columns),
                                 static_cast<uint64_t>(rows), stride),
           "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

class Plan {
 public:
  template <typename T>
  static Plan Make(const GemmArgs& args, const Stream& stream) {
    Plan plan;
    const DType type = kDTypeOf<T>;
    plan.a_ = args.transpose_a ? MakeLayout(type, args.k, args.m, args.a_stride)
                               : MakeLayout(type, args.m, args.k, args.a_stride);
    plan.b_ = args.transpose_b ? MakeLayout(type, args.n, args.k, args.b_stride)
                               : MakeLayout(type, args.k, args.n, args.b_stride);
    plan.c_ = MakeLayout(args.c_type, args.m, args.n, args.c_stride);
    plan.DescribeOperation(args);
    plan.ChooseAlgorithm(args, stream);
    return plan;
  }

  void Run(const GemmArgs& args, Stream& stream) {
    const CublasLt& lt = CublasLt::Get();
    if (args.bias != nullptr) Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias);
    const float one = 1.0F;
    const float beta = args.accumulate ? 1.0F : 0.0F;
    lt.Check(lt.Matmul(cuda::CublasLtHandle(stream.device()), operation_.get(), &one, args.b,
                       b_.get(), args.a, a_.get(), &beta, args.c, c_.get(), args.c, c_.get(),
                       &algorithm_, stream.Scratch(kWorkspaceBytes), kWorkspaceBytes,
                       static_cast<cudaStream_t>(stream.handle())),
             "cublasLtMatmul");
  }

 private:
  template <typename Value>
  void Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    const CublasLt& lt = CublasLt::Get();
    lt.Check(lt.MatmulDescSetAttribute(operation_.get(), attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
  }

  void DescribeOperation(const GemmArgs& args) {
    const CublasLt& lt = CublasLt::Get();
    cublasLtMatmulDesc_t operation = nullptr;
    // float32 products stay float32: TF32 would round the factors to 10 bits.
    lt.Check(lt.MatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "cublasLtMatmulDescCreate");
    operation_.reset(operation);
    Set(CUBLASLT_MATMUL_DESC_TRANSA, args.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, args.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (args.bias == nullptr) return;
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CudaType(args.c_type));
    // The heuristic looks at its alignment.
    Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias);
  }

  void ChooseAlgorithm(const GemmArgs& args, const Stream& stream) {
    const CublasLt& lt = CublasLt::Get();
    cublasLtMatmulPreference_t created = nullptr;
    lt.Check(lt.MatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
    const Preference preference(created);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      lt.Check(lt.MatmulPreferenceSetAttribute(created, attribute, &value, sizeof(value)),
               "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, AlignmentOf(args.b));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, AlignmentOf(args.a));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AlignmentOf(args.c));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, AlignmentOf(args.c));
    // Split sums are added in float32 and in order; in place they would round to c's type each
    // time.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    lt.Check(
        lt.MatmulAlgoGetHeuristic(cuda::CublasLtHandle(stream.device()), operation_.get(), b_.get(),
                                  a_.get(), c_.get(), c_.get(), created, 1, &result, &count),
        "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0) throw CudaError("cuBLASLt knows no algorithm for this product");
    algorithm_ = result.algo;
  }

  Operation operation_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

template <typename T>
void GemmCuda(const GemmArgs& args, Stream& stream) {
  // A thread runs one rank, and a rank meets few shapes.
  thread_local std::map<PlanKey, Plan> plans;
  const PlanKey key = KeyOf<T>(args, stream);
  auto found = plans.find(key);
  if (found == plans.end()) found = plans.emplace(key, Plan::Make<T>(args, stream)).first;
  found->second.Run(args, stream);
}

template void GemmCuda<float>(const GemmArgs&, Stream&);
template void GemmCuda<BFloat16>(const GemmArgs&, Stream&);
template void GemmCuda<Float16>(const GemmArgs&, Stream&);

}  // namespace dtrain
