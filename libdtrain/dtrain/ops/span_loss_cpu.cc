// span_loss_cpu.cc - loss and gradient of one side of a sequence, reading its scores three times.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/lanes.h"
#include "dtrain/ops/internal/span_loss_kernel.h"

namespace dtrain::DT_CPU_ISA {
namespace {

// Returns -log p[target], or 0 if the target is negative. d_logits, unless null, receives factor *
// (p - [token == target]).
float SpanRow(const float* logits, int64_t tokens, int64_t target, float factor, float* d_logits) {
  Vec max_lanes = Broadcast(-__builtin_inff());
  ForLanes(0, tokens, [&](int64_t t, auto lanes) {
    const Vec z = Only(Load(logits + t, lanes), lanes, max_lanes);
    max_lanes = max_lanes > z ? max_lanes : z;
  });
  const float max = HorizontalMax(max_lanes);
  const float sum = SumLanes(0, tokens, [&](int64_t t, auto lanes) {
    return Only(Exp(Load(logits + t, lanes) - max), lanes);
  });
  const bool known = target >= 0;
  const float log_sum_exp =
      static_cast<float>(static_cast<double>(max) + __builtin_log(static_cast<double>(sum)));
  const float loss = known ? log_sum_exp - logits[target] : 0.0f;
  if (d_logits == nullptr) return loss;
  const float of_token = known ? factor / sum : 0.0f;
  ForLanes(0, tokens, [&](int64_t t, auto lanes) {
    Store(d_logits + t, Exp(Load(logits + t, lanes) - max) * of_token, lanes);
  });
  if (known) d_logits[target] -= factor;
  return loss;
}

}  // namespace

template <typename T>
void SpanLossKernel(const SpanLossArgs& args) {
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const int64_t s = r % args.sequences;
    const int64_t first = r / args.sequences * args.tokens + args.offsets[s];
    args.loss[r] = args.share * SpanRow(args.logits + first, args.offsets[s + 1] - args.offsets[s],
                                        args.targets[r], args.share * *args.scale,
                                        args.d_logits == nullptr ? nullptr : args.d_logits + first);
  }
}

template void SpanLossKernel<float>(const SpanLossArgs&);

}  // namespace dtrain::DT_CPU_ISA
