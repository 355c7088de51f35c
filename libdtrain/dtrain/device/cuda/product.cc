// product.cc - describes a product to cuBLASLt and calls it.
// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt stores matrices column by column. It therefore computes c^T = op(b)^T op(a)^T: its A is
// our b, its B our a, its D our c. A bias per output feature is then one value per row of D, which
// is what its bias epilogue adds. The sums over op(a)'s rows are those of its B.
#include "dtrain/device/cuda/product.h"

#include "dtrain/device/cuda/cublaslt.h"
#include "dtrain/device/cuda/error.h"

namespace dtrain::cuda {
namespace {

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

cublasLtEpilogue_t CublasEpilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      break;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kReluBias:
      return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    case Epilogue::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kReluGradient:
      return CUBLASLT_EPILOGUE_DRELU_BGRAD;
    case Epilogue::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    case Epilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Destroys a cuBLASLt object with the function for its type.
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

// Describes a row-major matrix as the column-major transpose that cuBLASLt sees.
Layout MakeLayout(DType dtype, int64_t rows, int64_t columns, int64_t stride) {
  const CublasLt& lt = CublasLt::Get();
  cublasLtMatrixLayout_t layout = nullptr;
  lt.Check(lt.MatrixLayoutCreate(&layout, CudaType(dtype), static_cast<uint64_t>(columns),
                                 static_cast<uint64_t>(rows), stride),
           "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

void Resize(const Layout& layout, int64_t rows, int64_t columns) {
  const CublasLt& lt = CublasLt::Get();
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, int64_t extent) {
    const auto value = static_cast<uint64_t>(extent);
    lt.Check(lt.MatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof(value)),
             "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_ROWS, columns);
  set(CUBLASLT_MATRIX_LAYOUT_COLS, rows);
}

cublasLtMatmulAlgo_t AsCublas(const ProductAlgorithm& algorithm) {
  cublasLtMatmulAlgo_t result{};
  for (size_t i = 0; i < algorithm.words.size(); ++i) result.data[i] = algorithm.words[i];
  return result;
}

ProductAlgorithm FromCublas(const cublasLtMatmulHeuristicResult_t& suggestion) {
  ProductAlgorithm result{.words = {}, .workspace_bytes = suggestion.workspaceSize};
  for (size_t i = 0; i < result.words.size(); ++i) result.words[i] = suggestion.algo.data[i];
  return result;
}

}  // namespace

struct Product::Descriptors {
  Operation operation;
  Layout a, b, c;
  Extents extents;  // the extents that the layouts have now

  template <typename Value>
  void Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    const CublasLt& lt = CublasLt::Get();
    lt.Check(lt.MatmulDescSetAttribute(operation.get(), attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
  }
};

Product::Product(const ProductShape& shape, const Device& device)
    : shape_(shape), device_(device), descriptors_(std::make_unique<Descriptors>()) {
  const CublasLt& lt = CublasLt::Get();
  Descriptors& d = *descriptors_;
  d.a = shape.transpose_a ? MakeLayout(shape.type, shape.k, shape.m, shape.a_stride)
                          : MakeLayout(shape.type, shape.m, shape.k, shape.a_stride);
  d.b = shape.transpose_b ? MakeLayout(shape.type, shape.n, shape.k, shape.b_stride)
                          : MakeLayout(shape.type, shape.k, shape.n, shape.b_stride);
  d.c = MakeLayout(shape.c_type, shape.m, shape.n, shape.c_stride);
  d.extents = {shape.m, shape.n, shape.k};
  cublasLtMatmulDesc_t operation = nullptr;
  // float32 products stay in float32: TF32 would round the factors to 10 bits.
  lt.Check(lt.MatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
           "cublasLtMatmulDescCreate");
  d.operation.reset(operation);
  d.Set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  d.Set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (shape.epilogue == Epilogue::kNone) return;
  d.Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CublasEpilogue(shape.epilogue));
  d.Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(CudaType(shape.c_type)));
  if (shape.aux_stride > 0) d.Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.aux_stride);
}

Product::Product(Product&&) noexcept = default;
Product::~Product() = default;

void Product::SetPointers(const ProductOperands& operands) {
  const void* const vector = operands.bias != nullptr ? operands.bias : operands.bias_gradient;
  if (vector != nullptr) descriptors_->Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  if (operands.aux != nullptr) {
    descriptors_->Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
  }
}

void Product::SetExtents(const Extents& extents) {
  Descriptors& d = *descriptors_;
  const auto& [m, n, k] = extents;
  if (m == d.extents.m && n == d.extents.n && k == d.extents.k) return;
  shape_.transpose_a ? Resize(d.a, k, m) : Resize(d.a, m, k);
  shape_.transpose_b ? Resize(d.b, n, k) : Resize(d.b, k, n);
  Resize(d.c, m, n);
  d.extents = extents;
}

std::vector<ProductAlgorithm> Product::Candidates(const ProductOperands& operands,
                                                  const Limits& limits) {
  const CublasLt& lt = CublasLt::Get();
  Descriptors& d = *descriptors_;
  SetExtents({shape_.m, shape_.n, shape_.k});
  SetPointers(operands);  // the library checks their alignment
  cublasLtMatmulPreference_t created = nullptr;
  lt.Check(lt.MatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  const Preference preference(created);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    lt.Check(lt.MatmulPreferenceSetAttribute(created, attribute, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, limits.workspace_bytes);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(shape_.b_alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(shape_.a_alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(shape_.c_alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(shape_.c_alignment));
  // Split sums are added in float32 and in a fixed order. In-place sums would round to c's type at
  // each step.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(limits.count));
  int count = 0;
  const cublasStatus_t status = lt.MatmulAlgoGetHeuristic(
      CublasLtHandle(device_), d.operation.get(), d.b.get(), d.a.get(), d.c.get(), d.c.get(),
      created, limits.count, results.data(), &count);
  // Not every epilogue exists for every type and stride; callers have a fallback for these.
  const bool is_plain = shape_.epilogue == Epilogue::kNone || shape_.epilogue == Epilogue::kBias;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED ||
      (status == CUBLAS_STATUS_INVALID_VALUE && !is_plain)) {
    return {};
  }
  lt.Check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<ProductAlgorithm> algorithms;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(FromCublas(result));
  }
  return algorithms;
}

bool Product::Run(const Extents& extents, const ProductOperands& operands,
                  const ProductAlgorithm& algorithm, Stream& stream) {
  const CublasLt& lt = CublasLt::Get();
  Descriptors& d = *descriptors_;
  SetExtents(extents);
  SetPointers(operands);
  const float one = 1.0F;
  const float beta = shape_.accumulate ? 1.0F : 0.0F;
  const cublasLtMatmulAlgo_t chosen = AsCublas(algorithm);
  const cublasStatus_t status = lt.Matmul(
      CublasLtHandle(device_), d.operation.get(), &one, operands.b, d.b.get(), operands.a,
      d.a.get(), &beta, operands.c, d.c.get(), operands.c, d.c.get(), &chosen, operands.workspace,
      algorithm.workspace_bytes, static_cast<cudaStream_t>(stream.handle()));
  // These codes mean that a stored algorithm does not fit. The library checks this before it
  // launches anything. EXECUTION_FAILED is different: c may have been written already.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
      status == CUBLAS_STATUS_ARCH_MISMATCH || status == CUBLAS_STATUS_INTERNAL_ERROR) {
    return false;
  }
  lt.Check(status, "cublasLtMatmul");
  return true;
}

std::string Product::Describe(const ProductAlgorithm& algorithm) {
  const CublasLt& lt = CublasLt::Get();
  const cublasLtMatmulAlgo_t words = AsCublas(algorithm);
  std::string text;
  const auto add = [&](const char* name, cublasLtMatmulAlgoConfigAttributes_t attribute) {
    int32_t value = 0;
    size_t written = 0;
    const cublasStatus_t status =
        lt.MatmulAlgoConfigGetAttribute(&words, attribute, &value, sizeof(value), &written);
    if (status != CUBLAS_STATUS_SUCCESS) return;
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(value);
  };
  add("algorithm", CUBLASLT_ALGO_CONFIG_ID);
  add("tile", CUBLASLT_ALGO_CONFIG_TILE_ID);
  add("stages", CUBLASLT_ALGO_CONFIG_STAGES_ID);
  add("split", CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  return text;
}

size_t ProductLibraryVersion() { return CublasLt::Get().GetVersion(); }

}  // namespace dtrain::cuda
