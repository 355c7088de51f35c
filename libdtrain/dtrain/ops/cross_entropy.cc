// cross_entropy.cc - checks shapes and targets, then splits the rows among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/cross_entropy.h"

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/cross_entropy_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {
namespace {

void CheckLogits(const char* op, const Tensor& logits, const Stream& stream) {
  CheckRank(op, "logits", logits, 2);
  CheckTensor(op, "logits", logits, logits.shape(), logits.dtype(), stream);
  DT_CHECK_GE(logits.dim(1), 1) << op << ": there must be at least one class";
}

void CheckOptions(const char* op, const CrossEntropyOptions& options) {
  DT_CHECK(options.label_smoothing >= 0.0f && options.label_smoothing < 1.0f)
      << op << ": label_smoothing is " << options.label_smoothing << ", must be in [0, 1)";
}

// A negative target is a row without loss. A target above the last class is a bug of the caller.
void CheckTargets(const char* op, const Tensor& targets, int64_t classes) {
  const int32_t* const target = targets.data<int32_t>();
  for (int64_t i = 0; i < targets.elements(); ++i) {
    DT_CHECK(target[i] < classes) << op << ": targets[" << i << "] is " << target[i]
                                  << ", there are " << classes << " classes";
  }
}

// Runs kernel.operator()<D, T>(piece) for all rows: in parallel pieces on the CPU, at once on a
// GPU.
template <typename Args, typename Kernel>
void RunRows(const Tensor& logits, const Args& args, const Kernel& kernel) {
  DispatchFloat(logits, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ParallelFor(logits.dim(0), RowGrain(logits.dim(1)), [&](int64_t begin, int64_t end) {
        Args piece = args;
        piece.row_begin = begin;
        piece.row_end = end;
        kernel.template operator()<D, T>(piece);
      });
    } else {
      Args all = args;
      all.row_end = logits.dim(0);
      kernel.template operator()<D, T>(all);
    }
  });
}

}  // namespace

void CrossEntropyForward(const Tensor& logits, const Tensor& targets,
                         const CrossEntropyOptions& options, Tensor& loss, Tensor& nll,
                         Tensor& log_sum_exp, Stream& stream) {
  constexpr const char* kOp = "CrossEntropyForward";
  CheckLogits(kOp, logits, stream);
  CheckOptions(kOp, options);
  const int64_t rows = logits.dim(0);
  CheckTensor(kOp, "targets", targets, {rows}, DType::kInt32, stream);
  CheckTensor(kOp, "loss", loss, {rows}, DType::kFloat32, stream);
  CheckTensor(kOp, "nll", nll, {rows}, DType::kFloat32, stream);
  CheckTensor(kOp, "log_sum_exp", log_sum_exp, {rows}, DType::kFloat32, stream);
  if (stream.device().type == DeviceType::kCpu) CheckTargets(kOp, targets, logits.dim(1));
  const CrossEntropyForwardArgs args = {.logits = RowsOf(logits),
                                        .targets = targets.data<int32_t>(),
                                        .smoothing = options.label_smoothing,
                                        .loss = loss.data<float>(),
                                        .nll = nll.data<float>(),
                                        .log_sum_exp = log_sum_exp.data<float>(),
                                        .classes = logits.dim(1)};
  RunRows(logits, args, [&]<DeviceType D, typename T>(const CrossEntropyForwardArgs& piece) {
    if constexpr (D == DeviceType::kCpu) {
      CrossEntropyForwardKernelCpu<T>(piece);
    } else {
      CrossEntropyForwardKernelCuda<T>(piece, stream);
    }
  });
}

void CrossEntropyBackward(const Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
                          const CrossEntropyOptions& options, const Tensor& scale, Tensor& d_logits,
                          Stream& stream) {
  constexpr const char* kOp = "CrossEntropyBackward";
  CheckLogits(kOp, logits, stream);
  CheckOptions(kOp, options);
  const int64_t rows = logits.dim(0);
  CheckTensor(kOp, "targets", targets, {rows}, DType::kInt32, stream);
  CheckTensor(kOp, "log_sum_exp", log_sum_exp, {rows}, DType::kFloat32, stream);
  CheckTensor(kOp, "scale", scale, {1}, DType::kFloat32, stream);
  CheckTensor(kOp, "d_logits", d_logits, logits.shape(), logits.dtype(), stream);
  if (stream.device().type == DeviceType::kCpu) CheckTargets(kOp, targets, logits.dim(1));
  const CrossEntropyBackwardArgs args = {.logits = RowsOf(logits),
                                         .d_logits = RowsOf(d_logits),
                                         .targets = targets.data<int32_t>(),
                                         .log_sum_exp = log_sum_exp.data<float>(),
                                         .smoothing = options.label_smoothing,
                                         .scale = scale.data<float>(),
                                         .classes = logits.dim(1)};
  RunRows(logits, args, [&]<DeviceType D, typename T>(const CrossEntropyBackwardArgs& piece) {
    if constexpr (D == DeviceType::kCpu) {
      CrossEntropyBackwardKernelCpu<T>(piece);
    } else {
      CrossEntropyBackwardKernelCuda<T>(piece, stream);
    }
  });
}

void LogSoftmax(const Tensor& logits, Tensor& out, Stream& stream) {
  CheckLogits("LogSoftmax", logits, stream);
  CheckTensor("LogSoftmax", "out", out, logits.shape(), DType::kFloat32, stream);
  const LogSoftmaxArgs args = {
      .logits = RowsOf(logits), .out = RowsOf(out), .classes = logits.dim(1)};
  RunRows(logits, args, [&]<DeviceType D, typename T>(const LogSoftmaxArgs& piece) {
    if constexpr (D == DeviceType::kCpu) {
      LogSoftmaxKernelCpu<T>(piece);
    } else {
      LogSoftmaxKernelCuda<T>(piece, stream);
    }
  });
}

void ArgMax(const Tensor& logits, Tensor& ids, Stream& stream) {
  CheckLogits("ArgMax", logits, stream);
  CheckTensor("ArgMax", "ids", ids, {logits.dim(0)}, DType::kInt32, stream);
  const ArgMaxArgs args = {
      .logits = RowsOf(logits), .ids = ids.data<int32_t>(), .classes = logits.dim(1)};
  RunRows(logits, args, [&]<DeviceType D, typename T>(const ArgMaxArgs& piece) {
    if constexpr (D == DeviceType::kCpu) {
      ArgMaxKernelCpu<T>(piece);
    } else {
      ArgMaxKernelCuda<T>(piece, stream);
    }
  });
}

}  // namespace dtrain
