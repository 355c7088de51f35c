// adam.cc - checks the arguments, then splits the elements among the threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/adam.h"

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/adam_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {

void AdamUpdate(const Tensor& gradients, const Tensor& step, const AdamOptions& options,
                Tensor& weights, Tensor& m, Tensor& v, Tensor& copy, Stream& stream) {
  constexpr const char* kOp = "AdamUpdate";
  CheckRank(kOp, "weights", weights, 1);
  const Shape& shape = weights.shape();
  CheckTensor(kOp, "weights", weights, shape, DType::kFloat32, stream);
  CheckTensor(kOp, "gradients", gradients, shape, DType::kFloat32, stream);
  static_assert(sizeof(AdamStep) == AdamStep::kValues * sizeof(float));
  CheckTensor(kOp, "step", step, {AdamStep::kValues}, DType::kFloat32, stream);
  CheckTensor(kOp, "m", m, shape, DType::kFloat32, stream);
  CheckTensor(kOp, "v", v, shape, DType::kFloat32, stream);
  CheckOptional(kOp, "copy", copy, shape, copy.dtype(), stream);
  const AdamArgs args = {.gradients = gradients.data<float>(),
                         .step = reinterpret_cast<const AdamStep*>(step.data<float>()),
                         .weights = weights.data<float>(),
                         .m = m.data<float>(),
                         .v = v.data<float>(),
                         .copy = copy.raw(),
                         .options = options};
  DispatchFloat(copy ? copy : weights, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      const AdamStep& now = *args.step;
      DT_CHECK(now.skip != 0.0f || (now.bias_correction1 > 0.0f && now.bias_correction2 > 0.0f))
          << kOp << ": the bias corrections are " << now.bias_correction1 << " and "
          << now.bias_correction2 << ", must be above 0";
      if (now.skip != 0.0f) return;
      const int64_t n = shape[0];
      ParallelFor(VectorGroups(n), VectorGroups(kGrainElements), [&](int64_t begin, int64_t end) {
        AdamArgs piece = args;
        piece.begin = begin * kVectorGroup;
        piece.end = std::min(n, end * kVectorGroup);
        AdamKernelCpu<T>(piece);
      });
    } else {
      AdamArgs all = args;
      all.end = shape[0];
      AdamKernelCuda<T>(all, stream);
    }
  });
}

}  // namespace dtrain
