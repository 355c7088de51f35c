// sequence_mean.cc - checks the arguments and splits sequences among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/sequence_mean.h"

#include "dtrain/base/check.h"
#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/op_support.h"
#include "dtrain/ops/internal/sequence_mean_kernel.h"

namespace dtrain {
namespace {

SequenceMeanArgs ArgsOf(const char* op, const Tensor& tokens, const Tensor& means,
                        const Sequences& sequences, const Stream& stream) {
  CheckRank(op, "tokens", tokens, 2);
  CheckTensor(op, "tokens", tokens, {sequences.tokens(), tokens.dim(1)}, tokens.dtype(), stream);
  CheckTensor(op, "means", means, {sequences.count(), tokens.dim(1)}, tokens.dtype(), stream);
  for (int64_t s = 0; s < sequences.count(); ++s) {
    DT_CHECK_GT(sequences.length(s), 0) << op << ": sequence " << s << " has no rows";
  }
  const bool on_cpu = stream.device().type == DeviceType::kCpu;
  DT_CHECK(on_cpu || sequences.device_offsets()) << op << ": sequences without device offsets";
  return {
      .tokens = RowsOf(tokens),
      .means = RowsOf(means),
      .offsets = on_cpu ? sequences.offsets().data() : sequences.device_offsets().data<int32_t>(),
      .end = sequences.count(),
      .columns = tokens.dim(1)};
}

// Calls kernel(piece) for pieces of the sequences, of which each has whole ones.
template <typename Kernel>
void ForPieces(const SequenceMeanArgs& args, const Sequences& sequences, const Kernel& kernel) {
  if (args.end == 0) return;
  const int64_t rows = sequences.tokens() / args.end;  // of a sequence, on average
  ParallelFor(args.end, RowGrain(rows * args.columns), [&](int64_t begin, int64_t end) {
    SequenceMeanArgs piece = args;
    piece.begin = begin;
    piece.end = end;
    kernel(piece);
  });
}

}  // namespace

void SequenceMeanForward(const Tensor& x, const Sequences& sequences, Tensor& y, Stream& stream) {
  const SequenceMeanArgs args = ArgsOf("SequenceMeanForward", x, y, sequences, stream);
  DispatchFloat(x, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ForPieces(args, sequences, SequenceMeanForwardKernelCpu<T>);
    } else {
      SequenceMeanForwardCuda<T>(args, stream);
    }
  });
}

void SequenceMeanBackward(const Tensor& dy, const Sequences& sequences, Tensor& dx,
                          Stream& stream) {
  const SequenceMeanArgs args = ArgsOf("SequenceMeanBackward", dx, dy, sequences, stream);
  DispatchFloat(dx, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      ForPieces(args, sequences, SequenceMeanBackwardKernelCpu<T>);
    } else {
      SequenceMeanBackwardCuda<T>(args, stream);
    }
  });
}

}  // namespace dtrain
