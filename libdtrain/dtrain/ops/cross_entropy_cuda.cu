// cross_entropy_cuda.cu - starts the kernels over rows of logits, in packs if the rows are aligned.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/base/check.h"
#include "dtrain/ops/internal/cross_entropy_kernel.cuh"

namespace dtrain {
namespace {

// Starts `packed` if all rows are aligned, otherwise `scalar`.
template <typename T, typename Args>
void LaunchRows(void (*packed)(Args), void (*scalar)(Args), bool aligned, const Args& args,
                Stream& stream) {
  DT_CHECK_LT(args.classes, int64_t{1} << 30) << "cross-entropy supports fewer than 2^30 classes";
  const int64_t packs = aligned ? args.classes / kPackedSize<T> : args.classes;
  Launch(aligned ? packed : scalar,
         {.blocks = {args.row_end - args.row_begin}, .threads = ThreadsFor(packs, kClassThreads)},
         args, stream);
}

}  // namespace

template <typename T>
void CrossEntropyForwardKernelCuda(const CrossEntropyForwardArgs& args, Stream& stream) {
  LaunchRows<T>(CrossEntropyForwardKernelGpu<T, true>, CrossEntropyForwardKernelGpu<T, false>,
                RowsAligned<T>(args.logits), args, stream);
}

template <typename T>
void CrossEntropyBackwardKernelCuda(const CrossEntropyBackwardArgs& args, Stream& stream) {
  LaunchRows<T>(CrossEntropyBackwardKernelGpu<T, true>, CrossEntropyBackwardKernelGpu<T, false>,
                RowsAligned<T>(args.logits) && RowsAligned<T>(args.d_logits), args, stream);
}

template <typename T>
void LogSoftmaxKernelCuda(const LogSoftmaxArgs& args, Stream& stream) {
  LaunchRows<T>(LogSoftmaxKernelGpu<T, true>, LogSoftmaxKernelGpu<T, false>,
                RowsAligned<T>(args.logits) && RowsAligned<float>(args.out), args, stream);
}

template <typename T>
void ArgMaxKernelCuda(const ArgMaxArgs& args, Stream& stream) {
  LaunchRows<T>(ArgMaxKernelGpu<T, true>, ArgMaxKernelGpu<T, false>, RowsAligned<T>(args.logits),
                args, stream);
}

template void CrossEntropyForwardKernelCuda<float>(const CrossEntropyForwardArgs&, Stream&);
template void CrossEntropyForwardKernelCuda<BFloat16>(const CrossEntropyForwardArgs&, Stream&);
template void CrossEntropyForwardKernelCuda<Float16>(const CrossEntropyForwardArgs&, Stream&);
template void CrossEntropyBackwardKernelCuda<float>(const CrossEntropyBackwardArgs&, Stream&);
template void CrossEntropyBackwardKernelCuda<BFloat16>(const CrossEntropyBackwardArgs&, Stream&);
template void CrossEntropyBackwardKernelCuda<Float16>(const CrossEntropyBackwardArgs&, Stream&);
template void LogSoftmaxKernelCuda<float>(const LogSoftmaxArgs&, Stream&);
template void LogSoftmaxKernelCuda<BFloat16>(const LogSoftmaxArgs&, Stream&);
template void LogSoftmaxKernelCuda<Float16>(const LogSoftmaxArgs&, Stream&);
template void ArgMaxKernelCuda<float>(const ArgMaxArgs&, Stream&);
template void ArgMaxKernelCuda<BFloat16>(const ArgMaxArgs&, Stream&);
template void ArgMaxKernelCuda<Float16>(const ArgMaxArgs&, Stream&);

}  // namespace dtrain
