// span_loss.cc - checks shapes and targets, then splits sides and sequences among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/span_loss.h"

#include <algorithm>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/op_support.h"
#include "dtrain/ops/internal/span_loss_kernel.h"

namespace dtrain {
namespace {

constexpr const char* kSpanLoss = "SpanLoss";

void CheckFloats(const char* name, const Tensor& tensor, const Shape& shape, const Stream& stream) {
  CheckTensor(kSpanLoss, name, tensor, shape, DType::kFloat32, stream);
  CheckContiguous(kSpanLoss, name, tensor);
}

void CheckSpanTargets(const Tensor& targets, const Sequences& sequences) {
  const int32_t* const target = targets.data<int32_t>();
  for (int64_t i = 0; i < targets.elements(); ++i) {
    const int64_t s = i % sequences.count();
    DT_CHECK_LT(target[i], sequences.length(s))
        << kSpanLoss << ": targets[" << i << "], a position in sequence " << s;
  }
}

}  // namespace

void SpanLoss(const Tensor& logits, const Tensor& targets, const Sequences& sequences,
              const Tensor& scale, SpanLossOutputs& outputs, Stream& stream) {
  CheckRank(kSpanLoss, "logits", logits, 2);
  const int64_t sides = logits.dim(0);
  const int64_t count = sequences.count();
  CheckFloats("logits", logits, {sides, sequences.tokens()}, stream);
  CheckTensor(kSpanLoss, "targets", targets, {sides, count}, DType::kInt32, stream);
  CheckContiguous(kSpanLoss, "targets", targets);
  CheckTensor(kSpanLoss, "scale", scale, {1}, DType::kFloat32, stream);
  CheckFloats("loss", outputs.loss, {sides, count}, stream);
  if (outputs.d_logits) CheckFloats("d_logits", outputs.d_logits, logits.shape(), stream);
  for (int64_t s = 0; s < count; ++s) {
    DT_CHECK_GT(sequences.length(s), 0) << kSpanLoss << ": sequence " << s << " is empty";
  }
  SpanLossArgs args = {.logits = logits.data<float>(),
                       .targets = targets.data<int32_t>(),
                       .offsets = sequences.offsets().data(),
                       .scale = scale.data<float>(),
                       .loss = outputs.loss.data<float>(),
                       .d_logits = outputs.d_logits ? outputs.d_logits.data<float>() : nullptr,
                       .row_end = sides * count,
                       .sequences = count,
                       .tokens = sequences.tokens(),
                       .share = 1.0f / static_cast<float>(sides)};
  DispatchFloat(logits, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      CheckSpanTargets(targets, sequences);
      const int64_t length = sequences.tokens() / std::max<int64_t>(count, 1);
      ParallelFor(args.row_end, RowGrain(length), [&](int64_t begin, int64_t end) {
        SpanLossArgs piece = args;
        piece.row_begin = begin;
        piece.row_end = end;
        SpanLossKernelCpu<float>(piece);
      });
    } else {
      DT_CHECK(sequences.device_offsets())
          << kSpanLoss << ": the sequences need device offsets (set_device_offsets())";
      args.offsets = sequences.device_offsets().data<int32_t>();
      SpanLossKernelCuda(args, stream);
    }
  });
}

}  // namespace dtrain
