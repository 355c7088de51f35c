// classification_loss.cc - checks shapes and classes, then splits the rows among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/classification_loss.h"

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/classification_loss_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {
namespace {

constexpr const char* kClassificationLoss = "ClassificationLoss";

void CheckContiguousFloats(const char* name, const Tensor& tensor, const Shape& shape,
                           const Stream& stream) {
  CheckTensor(kClassificationLoss, name, tensor, shape, DType::kFloat32, stream);
  CheckContiguous(kClassificationLoss, name, tensor);
}

void CheckOptionalFloats(const char* name, const Tensor& tensor, const Shape& shape,
                         const Stream& stream) {
  if (tensor) CheckContiguousFloats(name, tensor, shape, stream);
}

// A negative class is an unknown label. A class above the last one is a bug of the caller.
void CheckClasses(const Tensor& targets, int64_t classes) {
  const float* const target = targets.data<float>();
  for (int64_t i = 0; i < targets.elements(); ++i) {
    DT_CHECK(!(target[i] >= static_cast<float>(classes)))
        << kClassificationLoss << ": targets[" << i << "] is " << target[i] << ", there are "
        << classes << " classes";
  }
}

template <typename T>
T* DataOrNull(const Tensor& tensor) {
  return tensor ? tensor.data<T>() : nullptr;
}

}  // namespace

void ClassificationLoss(ClassificationLossKind kind, const ClassificationLossInputs& inputs,
                        const Tensor& scale, ClassificationLossOutputs& outputs, Stream& stream) {
  CheckRank(kClassificationLoss, "logits", inputs.logits, 2);
  const Shape& shape = inputs.logits.shape();
  const bool softmax = kind == ClassificationLossKind::kSoftmax;
  DT_CHECK_GE(shape[1], 1) << kClassificationLoss << ": there must be at least one output";
  CheckContiguousFloats("logits", inputs.logits, shape, stream);
  CheckContiguousFloats("targets", inputs.targets, {shape[0], softmax ? 1 : shape[1]}, stream);
  CheckOptionalFloats("weights", inputs.weights, {shape[0]}, stream);
  CheckOptionalFloats("output_weights", inputs.output_weights, {shape[1]}, stream);
  CheckTensor(kClassificationLoss, "scale", scale, {1}, DType::kFloat32, stream);
  CheckContiguousFloats("loss", outputs.loss, {shape[0]}, stream);
  CheckContiguousFloats("unweighted", outputs.unweighted, {shape[0]}, stream);
  CheckOptionalFloats("probabilities", outputs.probabilities, shape, stream);
  CheckOptionalFloats("d_logits", outputs.d_logits, shape, stream);
  DT_CHECK(!outputs.probabilities || outputs.probabilities.raw() != outputs.d_logits.raw())
      << kClassificationLoss << ": probabilities and d_logits must not share memory";
  const ClassificationLossArgs args = {.kind = kind,
                                       .logits = inputs.logits.data<float>(),
                                       .targets = inputs.targets.data<float>(),
                                       .weights = DataOrNull<float>(inputs.weights),
                                       .output_weights = DataOrNull<float>(inputs.output_weights),
                                       .scale = scale.data<float>(),
                                       .loss = outputs.loss.data<float>(),
                                       .unweighted = outputs.unweighted.data<float>(),
                                       .probabilities = DataOrNull<float>(outputs.probabilities),
                                       .d_logits = DataOrNull<float>(outputs.d_logits),
                                       .row_end = shape[0],
                                       .outputs = shape[1]};
  DispatchFloat(inputs.logits, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      if (softmax) CheckClasses(inputs.targets, shape[1]);
      ParallelFor(shape[0], RowGrain(shape[1]), [&](int64_t begin, int64_t end) {
        ClassificationLossArgs piece = args;
        piece.row_begin = begin;
        piece.row_end = end;
        ClassificationLossKernelCpu<float>(piece);
      });
    } else {
      ClassificationLossKernelCuda(args, stream);
    }
  });
}

}  // namespace dtrain
