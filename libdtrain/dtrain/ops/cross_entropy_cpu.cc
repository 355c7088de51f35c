// cross_entropy_cpu.cc - softmax over the classes of a row, reading the row from memory once.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/internal/cross_entropy_kernel.h"
#include "dtrain/ops/internal/lanes.h"

namespace dtrain::DT_CPU_ISA {
namespace {

// Number of columns that are read twice, for their maximum and for the sum of exp, while they are
// in the L1 cache.
constexpr int64_t kChunk = 1024;

template <typename T>
float MaxOf(const T* x, int64_t n, float start) {
  Vec max[2] = {Broadcast(start), Broadcast(start)};
  int64_t c = 0;
  for (; c + 2 * kLanes <= n; c += 2 * kLanes) {
    max[0] = Max(Load(x + c), max[0]);
    max[1] = Max(Load(x + c + kLanes), max[1]);
  }
  ForLanes(c, n, [&](int64_t i, auto lanes) {
    max[0] = Max(Only(Load(x + i, lanes), lanes, max[0]), max[0]);
  });
  return HorizontalMax(Max(max[0], max[1]));
}

struct Softmax {
  float log_sum_exp;
  float sum;  // sum of the logits
};

// The online softmax (Milakov and Gimelshein 2018, algorithm 3) in chunks: if a chunk raises the
// maximum, the sum so far is rescaled.
template <typename T>
Softmax SoftmaxOf(const T* x, int64_t classes) {
  float max = -__builtin_inff();
  double sum_exp = 0.0;
  double sum = 0.0;
  for (int64_t begin = 0; begin < classes; begin += kChunk) {
    const int64_t n = begin + kChunk < classes ? kChunk : classes - begin;
    const float chunk_max = MaxOf(x + begin, n, max);
    // If all values so far are -infinity, exp(x - x) would be NaN instead of 0.
    const float shift = chunk_max > -__builtin_inff() ? chunk_max : 0.0f;
    if (max > -__builtin_inff()) sum_exp *= __builtin_exp(static_cast<double>(max - shift));
    max = chunk_max;
    Vec exps[2] = {};
    Vec logits[2] = {};
    const T* const chunk = x + begin;
    int64_t c = 0;
    for (; c + 2 * kLanes <= n; c += 2 * kLanes) {
      const Vec a = Load(chunk + c);
      const Vec b = Load(chunk + c + kLanes);
      exps[0] += Exp(a - shift);
      exps[1] += Exp(b - shift);
      logits[0] += a;
      logits[1] += b;
    }
    ForLanes(c, n, [&](int64_t i, auto lanes) {
      const Vec a = Load(chunk + i, lanes);
      exps[0] += Only(Exp(a - shift), lanes);
      logits[0] += a;
    });
    sum_exp += static_cast<double>(HorizontalSum(exps[0] + exps[1]));
    sum += static_cast<double>(HorizontalSum(logits[0] + logits[1]));
  }
  const double shift = max > -__builtin_inff() ? static_cast<double>(max) : 0.0;
  return {.log_sum_exp = static_cast<float>(shift + __builtin_log(sum_exp)),
          .sum = static_cast<float>(sum)};
}

}  // namespace

template <typename T>
void CrossEntropyForwardKernel(const CrossEntropyForwardArgs& args) {
  const float smoothing = args.smoothing;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const x = Row<T>(args.logits, r);
    const Softmax softmax = SoftmaxOf(x, args.classes);
    args.log_sum_exp[r] = softmax.log_sum_exp;
    const int32_t target = args.targets[r];
    if (target < 0) {
      args.loss[r] = args.nll[r] = 0.0f;
      continue;
    }
    const float nll = softmax.log_sum_exp - LoadScalar(x + target);
    args.nll[r] = nll;
    args.loss[r] = nll;
    if (smoothing > 0.0f) {
      // Equals sum_c q_c (lse - x_c): the mean over all classes is weighted by the smoothing.
      const float mean = softmax.sum / static_cast<float>(args.classes);
      args.loss[r] = (1.0f - smoothing) * nll + smoothing * (softmax.log_sum_exp - mean);
    }
  }
}

template <typename T>
void CrossEntropyBackwardKernel(const CrossEntropyBackwardArgs& args) {
  const float scale = *args.scale;
  const float uniform = scale * args.smoothing / static_cast<float>(args.classes);
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const x = Row<T>(args.logits, r);
    T* const dx = Row<T>(args.d_logits, r);
    const int32_t target = args.targets[r];
    if (target < 0) {
      ForLanes(0, args.classes, [&](int64_t c, auto lanes) { Store(dx + c, Vec{}, lanes); });
      continue;
    }
    const float log_sum_exp = args.log_sum_exp[r];
    // Read before the row may be overwritten, so that the target's gradient is rounded only once.
    const Vec at_target = Broadcast(LoadScalar(x + target));
    ForLanes(0, args.classes, [&](int64_t c, auto lanes) {
      Store(dx + c, Exp(Load(x + c, lanes) - log_sum_exp) * scale - uniform, lanes);
    });
    const Vec p = Exp(at_target - log_sum_exp);
    Store(dx + target, (p - (1.0f - args.smoothing)) * scale - uniform, SomeLanes{1});
  }
}

template <typename T>
void LogSoftmaxKernel(const LogSoftmaxArgs& args) {
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const x = Row<T>(args.logits, r);
    float* const out = Row<float>(args.out, r);
    const float log_sum_exp = SoftmaxOf(x, args.classes).log_sum_exp;
    ForLanes(0, args.classes, [&](int64_t c, auto lanes) {
      Store(out + c, Load(x + c, lanes) - log_sum_exp, lanes);
    });
  }
}

template <typename T>
void ArgMaxKernel(const ArgMaxArgs& args) {
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const T* const x = Row<T>(args.logits, r);
    float max = -__builtin_inff();
    int64_t chunk = 0;
    for (int64_t begin = 0; begin < args.classes; begin += kChunk) {
      const int64_t n = begin + kChunk < args.classes ? kChunk : args.classes - begin;
      const float chunk_max = MaxOf(x + begin, n, max);
      if (chunk_max > max) {
        max = chunk_max;
        chunk = begin;
      }
    }
    // NaN is never the largest. A row that contains only NaN or -infinity yields column 0.
    int64_t c = chunk;
    while (c < args.classes && !(LoadScalar(x + c) == max)) ++c;
    args.ids[r] = c < args.classes ? static_cast<int32_t>(c) : 0;
  }
}

template void CrossEntropyForwardKernel<float>(const CrossEntropyForwardArgs&);
template void CrossEntropyForwardKernel<BFloat16>(const CrossEntropyForwardArgs&);
template void CrossEntropyBackwardKernel<float>(const CrossEntropyBackwardArgs&);
template void CrossEntropyBackwardKernel<BFloat16>(const CrossEntropyBackwardArgs&);
template void LogSoftmaxKernel<float>(const LogSoftmaxArgs&);
template void LogSoftmaxKernel<BFloat16>(const LogSoftmaxArgs&);
template void ArgMaxKernel<float>(const ArgMaxArgs&);
template void ArgMaxKernel<BFloat16>(const ArgMaxArgs&);

}  // namespace dtrain::DT_CPU_ISA
