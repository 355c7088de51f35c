// sequence_mean_cpu.cc - sums vectors of neighbouring columns down the rows of a sequence.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/lanes.h"
#include "dtrain/ops/internal/sequence_mean_kernel.h"

namespace dtrain::DT_CPU_ISA {

template <typename T>
void SequenceMeanForwardKernel(const SequenceMeanArgs& args) {
  for (int64_t s = args.begin; s < args.end; ++s) {
    const int64_t first = args.offsets[s];
    const int64_t last = args.offsets[s + 1];
    const float share = 1.0f / static_cast<float>(last - first);
    T* const mean = Row<T>(args.means, s);
    ForLanes(0, args.columns, [&](int64_t c, auto lanes) {
      Vec sum = Load(Row<T>(args.tokens, first) + c, lanes);
      for (int64_t t = first + 1; t < last; ++t) sum += Load(Row<T>(args.tokens, t) + c, lanes);
      Store(mean + c, sum * share, lanes);
    });
  }
}

template <typename T>
void SequenceMeanBackwardKernel(const SequenceMeanArgs& args) {
  for (int64_t s = args.begin; s < args.end; ++s) {
    const int64_t first = args.offsets[s];
    const int64_t last = args.offsets[s + 1];
    const float share = 1.0f / static_cast<float>(last - first);
    const T* const mean = Row<T>(args.means, s);
    ForLanes(0, args.columns, [&](int64_t c, auto lanes) {
      const Vec part = Load(mean + c, lanes) * share;
      for (int64_t t = first; t < last; ++t) Store(Row<T>(args.tokens, t) + c, part, lanes);
    });
  }
}

template void SequenceMeanForwardKernel<float>(const SequenceMeanArgs&);
template void SequenceMeanForwardKernel<BFloat16>(const SequenceMeanArgs&);
template void SequenceMeanBackwardKernel<float>(const SequenceMeanArgs&);
template void SequenceMeanBackwardKernel<BFloat16>(const SequenceMeanArgs&);

}  // namespace dtrain::DT_CPU_ISA
