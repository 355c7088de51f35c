// gemm_cuda.cu - matrix products by cuBLASLt, with one suggested or measured plan per shape.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>
#include <vector>

#include "dtrain/device/copy.h"
#include "dtrain/device/cuda/error.h"
#include "dtrain/device/cuda/launch.cuh"
#include "dtrain/device/cuda/packed.cuh"
#include "dtrain/device/cuda/runtime.h"
#include "dtrain/ops/internal/autotune.h"
#include "dtrain/ops/internal/gemm_kernel.h"
#include "dtrain/ops/internal/gemm_plans.h"

namespace dtrain {
namespace {

using cuda::Epilogue;
using cuda::Product;
using cuda::ProductAlgorithm;
using cuda::ProductShape;

// The library's suggestions that are measured. Fewer would seldom hold several ways to split a sum.
constexpr Product::Limits kMeasured = {.count = 64,
                                       .workspace_bytes = cuda::kProductWorkspaceBytes};
// Those that are tried where a plan does not fit.
constexpr Product::Limits kTried = {.count = 8};

// sums[i] += x[i]: adds a bias gradient that cuBLASLt wrote to the accumulated gradient. Geometry:
// a thread per element. Time: that of a launch.
constexpr int kAddThreads = 256;
template <typename T>
struct AddVectorArgs {
  const T* x;
  float* sums;
  int64_t count;
};
template <typename T>
__global__ void __launch_bounds__(kAddThreads) AddVectorKernel(AddVectorArgs<T> args) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < args.count) args.sums[i] += ToFloat(args.x[i]);
}

template <typename T>
void AddVector(const void* x, int64_t count, float* sums, Stream& stream) {
  Launch(AddVectorKernel<T>,
         {.blocks = {(count + kAddThreads - 1) / kAddThreads}, .threads = kAddThreads},
         AddVectorArgs<T>{static_cast<const T*>(x), sums, count}, stream);
}

// The largest power of two up to 16 that divides an address. Algorithms with wide accesses depend
// on it.
int AlignmentOf(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  int alignment = 16;
  while (value % static_cast<uintptr_t>(alignment) != 0) alignment /= 2;
  return alignment;
}

template <typename T>
ProductShape ShapeOf(const GemmArgs& args) {
  const bool is_plain = args.epilogue == Epilogue::kNone;
  return {.m = args.m,
          .n = args.n,
          .k = args.k,
          .a_stride = args.a_stride,
          .b_stride = args.b_stride,
          .c_stride = args.c_stride,
          .aux_stride = args.aux_stride,
          .transpose_a = args.transpose_a,
          .transpose_b = args.transpose_b,
          .accumulate = args.accumulate,
          .epilogue = is_plain && args.bias != nullptr ? Epilogue::kBias : args.epilogue,
          .type = kDTypeOf<T>,
          .c_type = args.c_type,
          .a_alignment = AlignmentOf(args.a),
          .b_alignment = AlignmentOf(args.b),
          .c_alignment = AlignmentOf(args.c),
          .vector_alignment = AlignmentOf(args.bias)};
}

int64_t BiasGradients(const GemmArgs& args) {
  if (args.bias_gradient == nullptr) return 0;
  return args.epilogue == Epilogue::kBiasGradient ? args.m : args.n;
}

// The product of a shape and the way it is computed.
struct Plan {
  Product product;
  GemmPlan choice;
};

// cuBLASLt cannot be told how the bias is aligned, and reads it 16 bytes at a time. A bias with
// another alignment is copied first.
bool CopiesBias(const GemmArgs& args) { return AlignmentOf(args.bias) < 16; }

// Size of a bias gradient as cuBLASLt writes it, or of a copied bias.
size_t VectorBytes(const GemmArgs& args) {
  if (CopiesBias(args)) return static_cast<size_t>(args.n) * SizeOf(args.c_type);
  return static_cast<size_t>(BiasGradients(args)) * sizeof(float);
}

// The scratch memory holds that vector first, then the workspace.
cuda::ProductOperands OperandsOf(const GemmArgs& args, size_t workspace_bytes, Stream& stream) {
  constexpr size_t kAlignment = 256;
  const size_t offset = (VectorBytes(args) + kAlignment - 1) / kAlignment * kAlignment;
  std::byte* const scratch =
      stream.Scratch(offset + workspace_bytes + kAlignment, "matrix product");
  if (CopiesBias(args)) CopyOnDevice(scratch, args.bias, VectorBytes(args), stream);
  return {.a = args.a,
          .b = args.b,
          .c = args.c,
          .bias = CopiesBias(args) ? scratch : args.bias,
          .bias_gradient = BiasGradients(args) == 0 ? nullptr : scratch,
          .aux = args.aux,
          .workspace = scratch + offset};
}

template <typename T>
bool RunOnce(Product& product, const GemmArgs& args, const ProductAlgorithm& algorithm,
             Stream& stream) {
  const cuda::ProductOperands operands = OperandsOf(args, algorithm.workspace_bytes, stream);
  if (!product.Run({args.m, args.n, args.k}, operands, algorithm, stream)) return false;
  if (const int64_t count = BiasGradients(args); count > 0) {
    args.c_type == DType::kFloat32
        ? AddVector<float>(operands.bias_gradient, count, args.bias_gradient, stream)
        : AddVector<T>(operands.bias_gradient, count, args.bias_gradient, stream);
  }
  return true;
}

// Measures the library's algorithms and, if given, `parts`. Returns the fastest.
template <typename T>
GemmPlan Measure(Product& product, const GemmArgs& args, const std::function<void()>& parts,
                 Stream& stream) {
  const std::vector<ProductAlgorithm> candidates =
      product.Candidates(OperandsOf(args, 0, stream), kMeasured);
  StreamTimer timer(stream);
  const size_t count = candidates.size() + (parts ? 1 : 0);
  const std::optional<FastestChoice> fastest =
      ChooseFastest(count, [&](size_t i) -> std::optional<double> {
        if (i == candidates.size()) {
          return timer.Time([&] {
            parts();
            return true;
          });
        }
        return timer.Time([&] { return RunOnce<T>(product, args, candidates[i], stream); });
      });
  if (!fastest.has_value()) throw CudaError("cuBLASLt has no algorithm for this product");
  GemmPlan plan{.fused = fastest->index < candidates.size(),
                .microseconds = 1e6 * fastest->seconds};
  if (plan.fused) {
    plan.algorithm = candidates[fastest->index];
    plan.note = Product::Describe(plan.algorithm);
  }
  return plan;
}

// From Hopper on, gelu's gradient is part of the product's kernel; Ada runs a slow extra kernel for
// it (llm.c issues 338 and 363). gelu itself is never fused by this rule: if backward computes it
// again, our kernel does so, and its bits would differ.
bool FusesByHeuristic(Epilogue epilogue, const Stream& stream) {
  if (CurrentGemmTuning() == GemmTuning::kOff || epilogue != Epilogue::kGeluGradient) return false;
  const int capability = cuda::Properties(stream.device()).compute_capability;
  return capability >= 90 && capability < 120;
}

template <typename T>
GemmPlan Choose(Product& product, const ProductShape& shape, const GemmArgs& args,
                const std::function<void()>& parts, Stream& stream) {
  if (CurrentGemmTuning() == GemmTuning::kMeasure) {
    const auto known = CurrentGemmPlans().find(shape);
    if (known != CurrentGemmPlans().end()) return known->second;
    if (MeasuresGemms()) {
      const GemmPlan plan = Measure<T>(product, args, parts, stream);
      AddGemmPlan(shape, plan);
      return plan;
    }
  }
  GemmPlan plan{.fused = !parts || FusesByHeuristic(shape.epilogue, stream)};
  if (!plan.fused) return plan;
  const std::vector<ProductAlgorithm> first = product.Candidates(OperandsOf(args, 0, stream), {});
  if (first.empty() && !parts) throw CudaError("cuBLASLt has no algorithm for this product");
  plan.fused = !first.empty();
  if (plan.fused) plan.algorithm = first.front();
  return plan;
}

// Returns the shape's plan and creates it at first use. A thread runs one rank, and a rank has few
// shapes.
template <typename T>
Plan& FindPlan(const GemmArgs& args, const std::function<void()>& parts, Stream& stream) {
  thread_local std::map<std::pair<int, ProductShape>, Plan> plans;
  thread_local int generation = 0;
  if (generation != GemmPlansGeneration()) plans.clear();
  generation = GemmPlansGeneration();
  const ProductShape shape = PlanShape(ShapeOf<T>(args));
  const std::pair<int, ProductShape> key{stream.device().index, shape};
  auto found = plans.find(key);
  // A suggested plan is replaced once it can be measured.
  if (found != plans.end() && MeasuresGemms() && !CurrentGemmPlans().contains(shape)) {
    plans.erase(found);
    found = plans.end();
  }
  if (found == plans.end()) {
    Product product(shape, stream.device());
    // `parts` may look up other plans, so no iterator into this map may be held during the call.
    GemmPlan choice = Choose<T>(product, shape, args, parts, stream);
    found = plans.emplace(key, Plan{std::move(product), std::move(choice)}).first;
  }
  return found->second;
}

// Used if the plan's algorithm does not fit this product: runs what the library suggests for
// exactly this product. Returns false if nothing works.
template <typename T>
bool RunAsSuggested(const GemmArgs& args, Stream& stream) {
  Product product(ShapeOf<T>(args), stream.device());
  for (const ProductAlgorithm& algorithm :
       product.Candidates(OperandsOf(args, 0, stream), kTried)) {
    if (RunOnce<T>(product, args, algorithm, stream)) return true;
  }
  return false;
}

}  // namespace

template <typename T>
void GemmCuda(const GemmArgs& args, Stream& stream) {
  Plan& plan = FindPlan<T>(args, {}, stream);
  if (RunOnce<T>(plan.product, args, plan.choice.algorithm, stream)) return;
  if (!RunAsSuggested<T>(args, stream)) throw CudaError("cuBLASLt refuses this product");
}

template <typename T>
bool FusedGemmCuda(const GemmArgs& args, const std::function<void()>& parts, Stream& stream) {
  Plan& plan = FindPlan<T>(args, parts, stream);
  if (!plan.choice.fused) return false;
  return RunOnce<T>(plan.product, args, plan.choice.algorithm, stream) ||
         RunAsSuggested<T>(args, stream);
}

template void GemmCuda<float>(const GemmArgs&, Stream&);
template void GemmCuda<BFloat16>(const GemmArgs&, Stream&);
template void GemmCuda<Float16>(const GemmArgs&, Stream&);
template bool FusedGemmCuda<float>(const GemmArgs&, const std::function<void()>&, Stream&);
template bool FusedGemmCuda<BFloat16>(const GemmArgs&, const std::function<void()>&, Stream&);
template bool FusedGemmCuda<Float16>(const GemmArgs&, const std::function<void()>&, Stream&);

}  // namespace dtrain
