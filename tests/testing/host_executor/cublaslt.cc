// cublaslt.cc - the emulated GPU's cuBLASLt: plain loops, strict about descriptions.
// SPDX-License-Identifier: Apache-2.0
//
// Matrices are stored column by column, as cuBLASLt takes them: D = epilogue(alpha op(A) op(B) +
// beta C). What the real library's documentation forbids is refused.
#include "testing/host_executor/cublaslt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/device/cuda/cublaslt.h"
#include "dtrain/device/cuda/error.h"
#include "testing/host_executor/streams.h"

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names.
struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_stride = 0;
  int32_t bias_type = -1;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t stride;
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint32_t reductions = ~0U;
  size_t workspace_bytes = 0;
};
// NOLINTEND(readability-identifier-naming)

namespace dtrain::host_executor {
namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;
using Operation = cublasLtMatmulDescOpaque_t;

float Load(cudaDataType_t type, const void* memory, size_t at) {
  switch (type) {
    case CUDA_R_16BF:
      return static_cast<float>(static_cast<const BFloat16*>(memory)[at]);
    case CUDA_R_16F:
      return static_cast<float>(static_cast<const Float16*>(memory)[at]);
    default:
      return static_cast<const float*>(memory)[at];
  }
}

void Store(cudaDataType_t type, void* memory, size_t at, float value) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<BFloat16*>(memory)[at] = BFloat16(value);
      return;
    case CUDA_R_16F:
      static_cast<Float16*>(memory)[at] = Float16(value);
      return;
    default:
      static_cast<float*>(memory)[at] = value;
  }
}

// op(X) as floats, row by row.
std::vector<float> Read(const void* memory, const Layout& layout, cublasOperation_t operation) {
  const bool transpose = operation == CUBLAS_OP_T;
  const uint64_t rows = transpose ? layout.columns : layout.rows;
  const uint64_t columns = transpose ? layout.rows : layout.columns;
  std::vector<float> values(rows * columns);
  for (uint64_t r = 0; r < rows; ++r) {
    for (uint64_t c = 0; c < columns; ++c) {
      const size_t at = transpose ? c + r * static_cast<uint64_t>(layout.stride)
                                  : r + c * static_cast<uint64_t>(layout.stride);
      values[r * columns + c] = Load(layout.type, memory, at);
    }
  }
  return values;
}

bool WritesBiasGradient(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD ||
         epilogue == CUBLASLT_EPILOGUE_BGRADB;
}
bool HasMask(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD;
}
bool HasGeluInput(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}

constexpr float kSqrtTwoOverPi = 0.7978845608F;
float Gelu(float x) {
  return 0.5F * x * (1.0F + std::tanh(kSqrtTwoOverPi * (x + 0.044715F * x * x * x)));
}
float GeluGradient(float x) {
  const float t = std::tanh(kSqrtTwoOverPi * (x + 0.044715F * x * x * x));
  return 0.5F * (1.0F + t) +
         0.5F * x * (1.0F - t * t) * kSqrtTwoOverPi * (1.0F + 3.0F * 0.044715F * x * x);
}

// What is done to one element of D on its way; `row`, `column` of D.
class Epilogue {
 public:
  Epilogue(const Operation& operation, const Layout& d)
      : operation_(operation), type_(d.type), sums_(d.rows) {}

  float operator()(float value, uint64_t row, uint64_t column) {
    const size_t aux = row + column * static_cast<uint64_t>(operation_.aux_stride);
    switch (operation_.epilogue) {
      case CUBLASLT_EPILOGUE_BIAS:
        return value + Load(type_, operation_.bias, row);
      case CUBLASLT_EPILOGUE_RELU_AUX_BIAS: {
        value += Load(type_, operation_.bias, row);
        auto& byte = static_cast<uint8_t*>(operation_.aux)[aux / 8];
        const auto bit = static_cast<uint8_t>(1U << (aux % 8));
        byte = static_cast<uint8_t>(value > 0.0F ? byte | bit : byte & ~bit);
        return std::max(value, 0.0F);
      }
      case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        value += Load(type_, operation_.bias, row);
        Store(type_, operation_.aux, aux, value);
        return Gelu(value);
      case CUBLASLT_EPILOGUE_DRELU_BGRAD:
        if ((static_cast<const uint8_t*>(operation_.aux)[aux / 8] >> (aux % 8) & 1U) == 0)
          value = 0;
        sums_[row] += value;
        return value;
      case CUBLASLT_EPILOGUE_DGELU_BGRAD:
        value *= GeluGradient(Load(type_, operation_.aux, aux));
        sums_[row] += value;
        return value;
      default:
        return value;
    }
  }

  // Where the epilogue has sums of its own result.
  void StoreSums() const {
    for (size_t i = 0; i < sums_.size(); ++i) Store(type_, operation_.bias, i, sums_[i]);
  }

 private:
  const Operation& operation_;
  cudaDataType_t type_;
  std::vector<float> sums_;
};

// It is told the alignment of the matrices alone, and may read and write vectors of 16 bytes.
bool IsAligned(const void* operand) { return reinterpret_cast<uintptr_t>(operand) % 16 == 0; }

// What the real library would refuse, compute nonsense from or fault at.
bool IsValid(const Operation& operation, const Layout& d) {
  const auto epilogue = operation.epilogue;
  if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  if (operation.bias == nullptr || operation.bias_type != d.type || !IsAligned(operation.bias)) {
    return false;
  }
  const bool is_mask = HasMask(epilogue);
  if (!is_mask && !HasGeluInput(epilogue)) return true;
  const int64_t unit = is_mask ? 128 : 8;
  return operation.aux != nullptr && operation.aux_stride % unit == 0 &&
         operation.aux_stride >= static_cast<int64_t>(d.rows) && IsAligned(operation.aux);
}

CublasProduct Describe(const Operation& operation, const Layout& a, const Layout& d) {
  return {.rows = d.rows,
          .columns = d.columns,
          .depth = operation.transpose_a == CUBLAS_OP_T ? a.rows : a.columns,
          .epilogue = operation.epilogue};
}

bool Agree(const Operation& operation, const Layout& a, const Layout& b, const Layout& d) {
  const bool ta = operation.transpose_a == CUBLAS_OP_T;
  const bool tb = operation.transpose_b == CUBLAS_OP_T;
  const auto fits = [](const Layout& x) { return x.stride >= static_cast<int64_t>(x.rows); };
  return fits(a) && fits(b) && fits(d) && (ta ? a.columns : a.rows) == d.rows &&
         (tb ? b.rows : b.columns) == d.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows);
}

thread_local double clock_seconds = 0.0;

}  // namespace

CublasSettings& Cublas() {
  thread_local CublasSettings settings;
  return settings;
}

void AdvanceClock(double seconds) { clock_seconds += seconds; }
double ClockSeconds() { return clock_seconds; }

// A column of D at a time, op(A)'s columns in the inner loop: fast enough for a small model's
// tests. a: op(A)^T, row by row; b: op(B), row by row. Algorithm 0 sums from the first to the last,
// the others the other way.
void Multiply(const Operation& operation, const std::vector<float>& a, const std::vector<float>& b,
              float beta, const CublasProduct& product, const Layout& layout, void* d) {
  Epilogue epilogue(operation, layout);
  const uint64_t depth = product.depth;
  const uint64_t rows = layout.rows;
  std::vector<float> sums(rows);
  for (uint64_t j = 0; j < layout.columns; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (uint64_t step = 0; step < depth; ++step) {
      const uint64_t p = product.algorithm == 0 ? step : depth - 1 - step;
      const float factor = b[p * layout.columns + j];
      const float* const column = a.data() + p * rows;
      for (uint64_t i = 0; i < rows; ++i) sums[i] += column[i] * factor;
    }
    for (uint64_t i = 0; i < rows; ++i) {
      const size_t at = i + j * static_cast<uint64_t>(layout.stride);
      if (beta != 0.0F) sums[i] += beta * Load(layout.type, d, at);
      Store(layout.type, d, at, epilogue(sums[i], i, j));
    }
  }
  if (operation.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    for (uint64_t j = 0; j < layout.columns; ++j) {
      float sum = 0.0F;
      for (uint64_t p = 0; p < depth; ++p) sum += b[p * layout.columns + j];
      Store(layout.type, operation.bias, j, sum);
    }
  } else if (WritesBiasGradient(operation.epilogue)) {
    epilogue.StoreSums();
  }
}

}  // namespace dtrain::host_executor

using dtrain::host_executor::Cublas;
using dtrain::host_executor::CublasProduct;

namespace {

// That every algorithm asks for.
constexpr size_t kWorkspaceBytes = 4096;

cublasStatus_t StatusOf(dtrain::host_executor::CublasRefusal refusal) {
  using dtrain::host_executor::CublasRefusal;
  if (refusal == CublasRefusal::kInternalError) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (refusal == CublasRefusal::kExecutionFailed) return CUBLAS_STATUS_EXECUTION_FAILED;
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static cublasLtContext context;
  *handle = &context;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return Cublas().version; }

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "refused by the emulation";
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* A, cublasLtMatrixLayout_t A_layout, const void* B,
                              cublasLtMatrixLayout_t B_layout, const void* beta, const void* C,
                              cublasLtMatrixLayout_t C_layout, void* D,
                              cublasLtMatrixLayout_t D_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  using dtrain::host_executor::Agree;
  const bool is_understood = *static_cast<const float*>(alpha) == 1.0F && C == D &&
                             C_layout == D_layout && workspace != nullptr && algo != nullptr &&
                             workspace_bytes >= kWorkspaceBytes && algo->data[7] == 0xfeedU &&
                             reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
  if (!is_understood || !Agree(*operation, *A_layout, *B_layout, *D_layout) ||
      !dtrain::host_executor::IsValid(*operation, *D_layout)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  CublasProduct product = dtrain::host_executor::Describe(*operation, *A_layout, *D_layout);
  product.algorithm = algo->data[0];
  if (Cublas().refuses(product)) return StatusOf(Cublas().refusal);
  // The descriptions end with the call, the product when the stream comes to it.
  dtrain::host_executor::Submit(
      stream, [=, description = *operation, a_layout = *A_layout, b_layout = *B_layout,
               d_layout = *D_layout, scale = *static_cast<const float*>(beta)] {
        dtrain::host_executor::Multiply(
            description,
            dtrain::host_executor::Read(
                A, a_layout, description.transpose_a == CUBLAS_OP_T ? CUBLAS_OP_N : CUBLAS_OP_T),
            dtrain::host_executor::Read(B, b_layout, description.transpose_b), scale, product,
            d_layout, D);
        dtrain::host_executor::AdvanceClock(Cublas().seconds(product));
      });
  Cublas().last = product;
  ++Cublas().products;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t A_layout,
    cublasLtMatrixLayout_t B_layout, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t D_layout,
    cublasLtMatmulPreference_t preference, int limit, cublasLtMatmulHeuristicResult_t* results,
    int* count) {
  ++Cublas().heuristics;
  *count = 0;
  if (preference->reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
      preference->workspace_bytes == 0 ||
      !dtrain::host_executor::Agree(*operation, *A_layout, *B_layout, *D_layout) ||
      !dtrain::host_executor::IsValid(*operation, *D_layout)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const int known =
      Cublas().suggestions(dtrain::host_executor::Describe(*operation, *A_layout, *D_layout));
  for (int i = 0; i < std::min(limit, known); ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<uint64_t>(i);
    results[i].algo.data[7] = 0xfeedU;  // all words travel
    results[i].workspaceSize = kWorkspaceBytes;
    results[i].state = CUBLAS_STATUS_SUCCESS;
    ++*count;
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  const auto number =
      static_cast<int32_t>(attribute == CUBLASLT_ALGO_CONFIG_ID ? algo->data[0] : 1);
  if (bytes != sizeof(number)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &number, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t,
                                        cudaDataType_t) {
  *operation = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

// An attribute's value, if it has the attribute's size.
template <typename Value>
cublasStatus_t Assign(Value& target, const void* value, size_t bytes) {
  if (bytes != sizeof(Value)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&target, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Assign(operation->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Assign(operation->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Assign(operation->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Assign(operation->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return Assign(operation->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return Assign(operation->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return Assign(operation->aux_stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, columns, stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  return Assign(attribute == CUBLASLT_MATRIX_LAYOUT_ROWS ? layout->rows : layout->columns, value,
                bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    return Assign(preference->reductions, value, bytes);
  }
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return Assign(preference->workspace_bytes, value, bytes);
  }
  uint32_t alignment = 0;
  return Assign(alignment, value, bytes);
}

namespace dtrain::cuda {

const CublasLt& CublasLt::Get() {
  static const CublasLt lt = {.Create = cublasLtCreate,
                              .GetVersion = cublasLtGetVersion,
                              .GetStatusString = cublasLtGetStatusString,
                              .Matmul = cublasLtMatmul,
                              .MatmulAlgoGetHeuristic = cublasLtMatmulAlgoGetHeuristic,
                              .MatmulAlgoConfigGetAttribute = cublasLtMatmulAlgoConfigGetAttribute,
                              .MatmulDescCreate = cublasLtMatmulDescCreate,
                              .MatmulDescDestroy = cublasLtMatmulDescDestroy,
                              .MatmulDescSetAttribute = cublasLtMatmulDescSetAttribute,
                              .MatrixLayoutCreate = cublasLtMatrixLayoutCreate,
                              .MatrixLayoutDestroy = cublasLtMatrixLayoutDestroy,
                              .MatrixLayoutSetAttribute = cublasLtMatrixLayoutSetAttribute,
                              .MatmulPreferenceCreate = cublasLtMatmulPreferenceCreate,
                              .MatmulPreferenceDestroy = cublasLtMatmulPreferenceDestroy,
                              .MatmulPreferenceSetAttribute = cublasLtMatmulPreferenceSetAttribute};
  return lt;
}

void CublasLt::Check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(std::string(call) + ": " + GetStatusString(status));
}

cublasLtHandle_t CublasLtHandle(const Device&) {
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  return handle;
}

}  // namespace dtrain::cuda
