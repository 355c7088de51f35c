// product.h - one matrix product on a GPU by cuBLASLt, with bias or activation fused in.
// SPDX-License-Identifier: Apache-2.0
//
// Includes no CUDA header, so that the code which chooses algorithms builds and is tested
// everywhere.
#ifndef DTRAIN_DEVICE_CUDA_PRODUCT_H_
#define DTRAIN_DEVICE_CUDA_PRODUCT_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/dtype.h"
#include "dtrain/device/stream.h"

namespace dtrain::cuda {

// Extra work done by the product's kernel. gelu is the tanh form; `aux` has the shape of c.
enum class Epilogue {
  kNone,
  kBias,          // c = product + bias, bias: [n]
  kReluBias,      // c = relu(product + bias); writes aux: one bit per element, set if it was
                  // positive
  kGeluBias,      // c = gelu(product + bias); writes aux: product + bias
  kReluGradient,  // c = product where aux's bit is set, else 0; bias_gradient: [n], the column sums
                  // of c
  kGeluGradient,  // c = product * gelu'(aux); bias_gradient likewise
  kBiasGradient   // c = product; bias_gradient: [m], sums of op(a)'s rows
};

// Everything the choice of an algorithm depends on. The product is c = op(a) op(b), or c += op(a)
// op(b) if `accumulate`, with op(a): [m, k] and op(b): [k, n]. Matrices are stored row by row;
// strides are elements between rows.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  int64_t aux_stride = 0;  // in elements, or in bits for a bit mask; 0 without aux
  bool transpose_a = false, transpose_b = false, accumulate = false;
  Epilogue epilogue = Epilogue::kNone;
  DType type = DType::kFloat32;    // type of a and b
  DType c_type = DType::kFloat32;  // type of c, bias, bias_gradient and, for gelu, aux
  // The largest power of two, up to 16, that divides the addresses of each operand.
  int a_alignment = 16, b_alignment = 16, c_alignment = 16, vector_alignment = 16;

  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;
  void* bias_gradient = nullptr;  // overwritten; has c's type
  void* aux = nullptr;
  void* workspace = nullptr;  // workspace_bytes of the algorithm, owned by the stream
};

// The largest workspace of a suggested algorithm; NVIDIA recommends this for Hopper.
inline constexpr size_t kSuggestedWorkspaceBytes = size_t{32} << 20;
// The largest workspace of a measured one. Two float32 slices of a 4096 x 1024 weight gradient fill
// 32 MiB, so with less there would be no split into more than two.
inline constexpr size_t kProductWorkspaceBytes = size_t{128} << 20;
// aux_stride must be a multiple of the first for a bit mask, and of the second for gelu's input.
inline constexpr int64_t kMaskStrideBits = 128;
inline constexpr int64_t kGeluStrideElements = 8;

// An algorithm chosen by the library. The words are opaque and only valid for the same library
// version.
struct ProductAlgorithm {
  std::array<uint64_t, 8> words{};
  size_t workspace_bytes = 0;

  friend bool operator==(const ProductAlgorithm&, const ProductAlgorithm&) = default;
};

class Product {
 public:
  // Throws CudaError if the library is missing or refuses the description.
  Product(const ProductShape& shape, const Device& device);
  Product(Product&&) noexcept;
  Product& operator=(Product&&) = delete;
  ~Product();

  // The library's suggestions for this shape, best first; empty if it has none. Only the operands'
  // addresses are used. Every suggested algorithm adds split sums in float32 and in a fixed order,
  // never in place.
  struct Limits {
    int count = 1;
    size_t workspace_bytes = kSuggestedWorkspaceBytes;
  };
  std::vector<ProductAlgorithm> Candidates(const ProductOperands& operands, const Limits& limits);

  // Issues the product. Extents that are not 0 replace those of the shape. Returns false, without
  // issuing anything, if the library refuses the algorithm for them.
  struct Extents {
    int64_t m = 0, n = 0, k = 0;
  };
  bool Run(const Extents& extents, const ProductOperands& operands,
           const ProductAlgorithm& algorithm, Stream& stream);

  // A readable description such as "algorithm 66, tile 20, stages 8, split 1".
  static std::string Describe(const ProductAlgorithm& algorithm);

 private:
  struct Descriptors;
  void SetPointers(const ProductOperands& operands);
  void SetExtents(const Extents& extents);

  ProductShape shape_;
  Device device_;
  std::unique_ptr<Descriptors> descriptors_;
};

// The version number of cuBLASLt.
size_t ProductLibraryVersion();

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_PRODUCT_H_
