// product.h - one matrix product on a GPU by cuBLASLt, and what it does to the result on the way.
// SPDX-License-Identifier: Apache-2.0
//
// Free of CUDA's headers, so that what chooses among algorithms builds and is tested everywhere.
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

// What else the product's kernel computes. gelu is the tanh form; `aux` has c's extents.
enum class Epilogue {
  kNone,
  kBias,          // c = product + bias, bias: [n]
  kReluBias,      // c = relu(product + bias); writes aux: one bit per element, set where it passed
  kGeluBias,      // c = gelu(product + bias); writes aux: product + bias
  kReluGradient,  // c = product where aux's bit is set, else 0; bias_gradient: [n], c's column sums
  kGeluGradient,  // c = product * gelu'(aux); bias_gradient likewise
  kBiasGradient   // c = product; bias_gradient: [m], sums of op(a)'s rows
};

// All that the choice of an algorithm depends on. Matrices are stored row by row, strides are
// elements between rows: c = op(a) op(b), or += where `accumulate`, with op(a): [m, k] and
// op(b): [k, n].
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  int64_t aux_stride = 0;  // elements, of a bit mask bits; 0 without aux
  bool transpose_a = false, transpose_b = false, accumulate = false;
  Epilogue epilogue = Epilogue::kNone;
  DType type = DType::kFloat32;    // of a and b
  DType c_type = DType::kFloat32;  // of c, bias, bias_gradient and, for gelu, aux
  // The largest power of two up to 16 that divides the addresses of each.
  int a_alignment = 16, b_alignment = 16, c_alignment = 16, vector_alignment = 16;

  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;
  void* bias_gradient = nullptr;  // overwritten, in c's type
  void* aux = nullptr;
  void* workspace = nullptr;  // the algorithm's workspace_bytes, of the stream
};

// The most an algorithm may ask for: NVIDIA's advice for Hopper.
inline constexpr size_t kProductWorkspaceBytes = size_t{32} << 20;
// aux_stride of a bit mask is a multiple of this, that of gelu's input of the other.
inline constexpr int64_t kMaskStrideBits = 128;
inline constexpr int64_t kGeluStrideElements = 8;

// How the library computes a product: its own words, good for the version that gave them.
struct ProductAlgorithm {
  std::array<uint64_t, 8> words{};
  size_t workspace_bytes = 0;

  friend bool operator==(const ProductAlgorithm&, const ProductAlgorithm&) = default;
};

class Product {
 public:
  // CudaError where the library is absent or refuses the description.
  Product(const ProductShape& shape, const Device& device);
  Product(Product&&) noexcept;
  Product& operator=(Product&&) = delete;
  ~Product();

  // The library's suggestions for the shape, its favourite first; empty where it has none. Looks at
  // the operands' addresses alone. Sums of splits are in float32 and in order, never in place.
  std::vector<ProductAlgorithm> Candidates(const ProductOperands& operands, int limit);

  // Issues the product of other extents than the shape's, where `m`, `n` or `k` are given. False
  // where the library refuses the algorithm for them; then nothing was issued.
  struct Extents {
    int64_t m = 0, n = 0, k = 0;
  };
  bool Run(const Extents& extents, const ProductOperands& operands,
           const ProductAlgorithm& algorithm, Stream& stream);

  // "algorithm 66, tile 20, stages 8, split 1", for people.
  static std::string Describe(const ProductAlgorithm& algorithm);

 private:
  struct Descriptors;
  void SetPointers(const ProductOperands& operands);
  void SetExtents(const Extents& extents);

  ProductShape shape_;
  Device device_;
  std::unique_ptr<Descriptors> descriptors_;
};

// cuBLASLt's version number.
size_t ProductLibraryVersion();

}  // namespace dtrain::cuda

#endif  // DTRAIN_DEVICE_CUDA_PRODUCT_H_
