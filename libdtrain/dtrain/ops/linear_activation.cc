// linear_activation.cc - runs one fused product if there is a plan for it, otherwise its parts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/linear_activation.h"

#include <functional>

#include "dtrain/device/dispatch.h"
#include "dtrain/device/with_cuda.h"
#include "dtrain/ops/gemm.h"
#include "dtrain/ops/gemm_tuning.h"
#include "dtrain/ops/internal/gemm_args.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {
namespace {

using cuda::Epilogue;

bool HasNoDropout(const LinearActivationOptions& options) {
  return options.dropout.probability == 0.0F;
}

// True if the product adds the bias, so that `before` includes it. On a GPU this is what gelu's
// epilogues expect, so backward may be fused even if forward was not. On a CPU, bfloat16 products
// add the bias while their sums are still in float32.
bool AddsBiasFirst(const LinearActivationOptions& options, DType dtype, const Stream& stream) {
  if (stream.device().type == DeviceType::kCpu) return dtype == DType::kBFloat16;
  return HasNoDropout(options) && options.activation == Activation::kGeluTanh;
}

// Runs the product with its epilogue and returns true, or runs `parts` and returns false.
bool RunFusedOr(const GemmArgs& args, const Tensor& a, const std::function<void()>& parts,
                Stream& stream) {
  bool is_done = false;
  if constexpr (kWithCuda) {
    DispatchFloat(a, [&]<DeviceType D, typename T>() {
      if constexpr (D == DeviceType::kCuda) is_done = FusedGemmCuda<T>(args, parts, stream);
    });
  }
  if (!is_done) parts();
  return is_done;
}

// cuBLASLt's requirements for the stride and address of a tensor that an epilogue reads or writes.
bool FitsEpilogue(const Tensor& before) {
  return before.row_stride() % cuda::kGeluStrideElements == 0 &&
         reinterpret_cast<uintptr_t>(before.raw()) % 16 == 0;
}

// cuBLASLt's gelu uses an approximate tanh. In float32 its gradients were wrong by up to 1.4e-4 of
// (1 + the value), measured on an H200 with CUDA 13.0: 26 times the error of our kernel. In 16-bit
// types rounding hides it.
bool FusesGelu(DType dtype) { return dtype != DType::kFloat32; }

void UseMask(const Tensor& mask, GemmArgs& args) {
  args.aux = mask.raw();
  args.aux_stride = 8 * mask.row_stride();
}

void UseBefore(const Tensor& before, GemmArgs& args) {
  args.aux = before.raw();
  args.aux_stride = before.row_stride();
}

void CheckForward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const LinearActivationOptions& options, const LinearActivationSaved& saved,
                  const Stream& stream) {
  constexpr const char* kOp = "LinearActivationForward";
  CheckRank(kOp, "x", x, 2);
  CheckRank(kOp, "weight", weight, 2);
  const Shape shape = {x.dim(0), weight.dim(0)};
  CheckTensor(kOp, "weight", weight, {weight.dim(0), x.dim(1)}, x.dtype(), stream);
  CheckOptional(kOp, "bias", bias, {weight.dim(0)}, x.dtype(), stream);
  CheckTensor(kOp, "after", saved.after, shape, x.dtype(), stream);
  if (saved.before) {
    CheckTensor(kOp, "before", saved.before, shape, x.dtype(), stream);
  }
  const int64_t mask_bytes =
      ActivationMaskBytes(options, weight.dim(0), x.dtype(), stream.device());
  if (saved.mask) {
    CheckTensor(kOp, "mask", saved.mask, {x.dim(0), mask_bytes}, DType::kUint8, stream);
  }
}

}  // namespace

int64_t ActivationMaskBytes(const LinearActivationOptions& options, int64_t out, DType dtype,
                            const Device& device) {
  const bool may_fuse = device.type == DeviceType::kCuda && dtype != DType::kFloat32 &&
                        options.activation == Activation::kRelu && HasNoDropout(options) &&
                        CurrentGemmTuning() == GemmTuning::kMeasure;
  if (!may_fuse) return 0;
  return (out + cuda::kMaskStrideBits - 1) / cuda::kMaskStrideBits * cuda::kMaskStrideBits / 8;
}

void LinearActivationForward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const LinearActivationOptions& options, LinearActivationSaved& saved,
                             Stream& stream) {
  CheckForward(x, weight, bias, options, saved, stream);
  const bool adds_bias_first = AddsBiasFirst(options, x.dtype(), stream);
  saved.is_biased = saved.before && adds_bias_first && FitsEpilogue(saved.before);
  saved.is_masked = false;
  if (saved.after.elements() == 0) return;
  const auto parts = [&] {
    Tensor& before = saved.before ? saved.before : saved.after;
    const bool is_biased = saved.before ? saved.is_biased : adds_bias_first;
    LinearForward(x, weight, is_biased ? bias : Tensor(), before, stream);
    BiasActivationForward(before, is_biased ? Tensor() : bias, options.activation, options.dropout,
                          saved.after, stream);
  };
  if (!bias) return parts();  // the epilogues add one
  GemmArgs args = ArgsOf(x, weight, {.transpose_b = true}, saved.after);
  args.bias = bias.raw();
  if (saved.is_biased && !options.repeats && FusesGelu(x.dtype())) {
    args.epilogue = Epilogue::kGeluBias;
    UseBefore(saved.before, args);
    RunFusedOr(args, x, parts, stream);
    return;
  }
  if (!saved.mask) return parts();
  args.epilogue = Epilogue::kReluBias;
  UseMask(saved.mask, args);
  saved.is_masked = RunFusedOr(args, x, parts, stream);
}

void RepeatActivation(const Tensor& bias, const LinearActivationOptions& options,
                      LinearActivationSaved& saved, Stream& stream) {
  DT_CHECK(options.repeats) << "RepeatActivation() requires that forward ran with options.repeats";
  BiasActivationForward(saved.before, saved.is_biased ? Tensor() : bias, options.activation,
                        options.dropout, saved.after, stream);
}

void LinearActivationBackward(const Tensor& dy, const Tensor& next_weight, const Tensor& bias,
                              const LinearActivationOptions& options,
                              const LinearActivationSaved& saved, Tensor& d_before, Tensor& d_bias,
                              Stream& stream) {
  constexpr const char* kOp = "LinearActivationBackward";
  CheckRank(kOp, "dy", dy, 2);
  CheckRank(kOp, "next_weight", next_weight, 2);
  const Shape shape = {dy.dim(0), next_weight.dim(1)};
  CheckTensor(kOp, "next_weight", next_weight, {dy.dim(1), shape[1]}, dy.dtype(), stream);
  CheckTensor(kOp, "after", saved.after, shape, dy.dtype(), stream);
  if (options.activation != Activation::kRelu) {
    CheckTensor(kOp, "before", saved.before, shape, dy.dtype(), stream);
  }
  CheckTensor(kOp, "d_before", d_before, shape, dy.dtype(), stream);
  CheckOptional(kOp, "d_bias", d_bias, {shape[1]}, DType::kFloat32, stream);
  if (d_before.elements() == 0) return;
  const auto parts = [&] {
    Gemm(dy, next_weight, {}, d_before, stream);
    if (options.activation == Activation::kRelu) {
      ReluBackwardFromOutput(d_before, saved.after, options.dropout, d_before, d_bias, stream);
    } else {
      BiasActivationBackward(d_before, saved.before, saved.is_biased ? Tensor() : bias,
                             options.activation, options.dropout, d_before, d_bias, stream);
    }
  };
  // The epilogues return bias gradients in d_before's type. A sum over all rows may exceed
  // float16's range even if no single term does.
  if (!d_bias || dy.dtype() == DType::kFloat16) return parts();
  GemmArgs args = ArgsOf(dy, next_weight, {}, d_before);
  args.bias_gradient = d_bias.data<float>();
  if (saved.is_masked) {
    args.epilogue = Epilogue::kReluGradient;
    UseMask(saved.mask, args);
  } else if (saved.is_biased && FusesGelu(dy.dtype())) {
    args.epilogue = Epilogue::kGeluGradient;
    UseBefore(saved.before, args);
  } else {
    return parts();
  }
  RunFusedOr(args, dy, parts, stream);
}

}  // namespace dtrain
