// attention.cc - checks attention's arguments, selects the kernel, splits the work among threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/ops/internal/attention_kernel.h"
#include "dtrain/ops/internal/thread_scratch.h"

namespace dtrain {
namespace {

// With fewer multiplications than this, a second thread costs more than it saves.
constexpr int64_t kThreadWork = 1 << 16;

void CheckRows(const Tensor& x, const Tensor& like, int64_t tokens, const char* name) {
  DT_CHECK_EQ(x.shape(), Shape({tokens, like.dim(1)})) << name << " is [tokens, hidden]";
  DT_CHECK_EQ(Name(x.dtype()), Name(like.dtype())) << name << " has q's type";
}

void CheckInputs(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& queries,
                 const Sequences& keys, const AttentionOptions& options) {
  DT_CHECK_EQ(q.shape().rank(), 2) << "q is [tokens, hidden]";
  DT_CHECK_GT(options.num_heads, 0);
  DT_CHECK_EQ(q.dim(1) % options.num_heads, 0) << "the hidden size must be a multiple of num_heads";
  CheckRows(q, q, queries.tokens(), "q");
  CheckRows(k, q, keys.tokens(), "k");
  CheckRows(v, q, keys.tokens(), "v");
  DT_CHECK(options.dropout.probability >= 0.0f && options.dropout.probability < 1.0f)
      << "dropout probability " << options.dropout.probability;
  DT_CHECK_GE(options.window, 0) << "a window is a number of keys on either side of a query";
  DT_CHECK(options.window == 0 || !options.causal)
      << "attention is causal or has a window, not both";
  const Tensor& row_numbers = options.dropout.row_numbers;
  if (row_numbers) {
    DT_CHECK_EQ(row_numbers.shape(), Shape({queries.tokens()})) << "row_numbers is [query tokens]";
    DT_CHECK_EQ(Name(row_numbers.dtype()), Name(DType::kInt32)) << "row_numbers";
    DT_CHECK(row_numbers.device() == q.device() && row_numbers.is_contiguous()) << "row_numbers";
  }
  DT_CHECK(options.dropout.probability == 0.0f || keys.max_length() <= kDropoutKeys)
      << "attention with dropout over " << keys.max_length() << " keys; it supports at most "
      << kDropoutKeys;
  DT_CHECK_EQ(queries.count(), keys.count())
      << "there must be as many key sequences as query sequences";
  for (int64_t i = 0; i < queries.count(); ++i) {
    DT_CHECK(queries.length(i) == 0 || keys.length(i) > 0)
        << "sequence " << i << " has queries but no keys";
    DT_CHECK(!options.causal || queries.length(i) == keys.length(i))
        << "sequence " << i << " is causal with " << queries.length(i) << " queries and "
        << keys.length(i) << " keys";
    DT_CHECK(options.window == 0 || queries.length(i) == keys.length(i))
        << "sequence " << i << " has a window with " << queries.length(i) << " queries and "
        << keys.length(i) << " keys; a window is for all tokens that attend to each other";
  }
}

void CheckStatistics(const Tensor& log_sum_exp, const Sequences& queries, int num_heads) {
  DT_CHECK_EQ(log_sum_exp.shape(), Shape({queries.tokens(), num_heads}))
      << "log_sum_exp is [query tokens, num_heads]";
  DT_CHECK(log_sum_exp.is_contiguous()) << "log_sum_exp must be contiguous";
}

float ScaleOf(float scale, int64_t head_dim) {
  return scale != 0.0f ? scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
}

AttentionArgs MakeAttentionArgs(const AttentionSaved& x, const Sequences& queries,
                                const Sequences& keys, const AttentionOptions& options) {
  AttentionArgs args = {};
  args.q = x.q.raw();
  args.k = x.k.raw();
  args.v = x.v.raw();
  args.out = x.out.raw();
  args.log_sum_exp = x.log_sum_exp.data<float>();
  args.q_stride = x.q.row_stride();
  args.k_stride = x.k.row_stride();
  args.v_stride = x.v.row_stride();
  args.out_stride = x.out.row_stride();
  args.query_offsets = queries.offsets().data();
  args.key_offsets = keys.offsets().data();
  if (queries.device_offsets() && keys.device_offsets()) {
    args.device_query_offsets = queries.device_offsets().data<int32_t>();
    args.device_key_offsets = keys.device_offsets().data<int32_t>();
  }
  args.num_heads = options.num_heads;
  args.head_dim = static_cast<int>(x.q.dim(1)) / options.num_heads;
  args.causal = options.causal;
  // A window that reaches all keys is none.
  args.window = options.window < keys.max_length() - 1 ? options.window : 0;
  args.scale = ScaleOf(options.scale, args.head_dim);
  args.dropout_key = options.dropout.key;
  args.dropout_step = options.dropout.device_step;
  args.dropout_threshold = options.dropout.threshold();
  args.dropout_scale = options.dropout.scale();
  if (options.dropout.row_numbers) {
    args.row_numbers = options.dropout.row_numbers.data<int32_t>();
  }
  args.sequences = queries.count();
  args.max_queries = queries.max_length();
  args.max_keys = keys.max_length();
  return args;
}

// Scratch floats that one unit needs if it multiplies pairs, for vectors of up to 16 floats.
int64_t PairScratch(const AttentionArgs& args) {
  const int64_t dim = args.head_dim + 16;
  const int64_t row = kKeyTile + 16;
  const int64_t tiles = (args.max_keys + kKeyTile - 1) / kKeyTile;
  const int64_t per_key = 2 * tiles * args.head_dim * row + 4 * (args.max_keys + 32) * dim;
  return per_key + 5 * kQueryTile * dim + 4 * kQueryTile * row + 1024;
}

// The same if it multiplies floats.
int64_t FloatScratch(const AttentionArgs& args) {
  const int64_t dim = args.head_dim + 32;
  const int64_t keys = std::min<int64_t>(args.max_keys, kFloatKeyTile);
  const int64_t row = keys + 32;
  const int64_t tiles = (args.max_keys + kFloatKeyTile - 1) / kFloatKeyTile;
  const int64_t forward = tiles * args.head_dim * row + (args.max_keys + 2 * kFloatQueryTile) * dim;
  const int64_t backward =
      args.max_queries * (3 * dim + 2) + 2 * args.head_dim * row + 3 * keys * dim;
  // Scores, their gradients, and half a float for each draw.
  return std::max(forward, backward) + 3 * kFloatQueryTile * row + 1024;
}

// Scratch floats of one unit (attention_unit.h). Which products it has depends on the processor.
template <typename T>
int64_t ScratchFloats(const AttentionArgs& args) {
  if constexpr (std::is_same_v<T, float>) return FloatScratch(args);
  return std::max(PairScratch(args), FloatScratch(args));
}

// The largest number of keys, of `keys`, that a query sees. (A causal one sees half on average.)
int64_t SeenKeys(const AttentionArgs& args, int64_t keys) {
  return args.window == 0 ? keys : std::min(keys, 2 * int64_t{args.window} + 1);
}

// Splits the units into `pieces` parts of about equal work. Returns the first unit of each part,
// and the end. A unit's results do not depend on the split.
std::vector<int64_t> SplitUnits(const AttentionArgs& args, const Sequences& queries,
                                const Sequences& keys, int64_t pieces) {
  const int64_t num_heads = args.num_heads;
  const auto cost = [&](int64_t i) {
    return int64_t{queries.length(i)} * (SeenKeys(args, keys.length(i)) + 8) + 2 * keys.length(i);
  };
  int64_t total = 0;
  for (int64_t i = 0; i < queries.count(); ++i) total += cost(i);
  std::vector<int64_t> cuts = {0};
  int64_t before = 0;  // work so far, as a multiple of one head's work
  for (int64_t i = 0; i < queries.count(); ++i) {
    for (int64_t head = 0; head < num_heads; ++head) {
      const auto piece = static_cast<int64_t>(cuts.size());
      if (piece < pieces && before * pieces >= total * num_heads * piece) {
        cuts.push_back(i * num_heads + head);
      }
      before += cost(i);
    }
  }
  cuts.resize(static_cast<size_t>(pieces) + 1, queries.count() * num_heads);
  return cuts;
}

// Calls kernel(args) on every thread, with the thread's own units and scratch in args.
template <typename T, typename Kernel>
void RunOnCpu(const AttentionArgs& args, const Sequences& queries, const Sequences& keys,
              const Kernel& kernel) {
  const int64_t work =
      queries.tokens() * SeenKeys(args, keys.max_length()) * args.head_dim * args.num_heads;
  const int64_t pieces = std::clamp<int64_t>(work / kThreadWork, 1, NumThreads());
  const std::vector<int64_t> cuts = SplitUnits(args, queries, keys, pieces);
  ParallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
    AttentionArgs part = args;
    part.first_unit = cuts[static_cast<size_t>(begin)];
    part.last_unit = cuts[static_cast<size_t>(end)];
    part.scratch = ThreadScratch<float>(0, ScratchFloats<T>(args));
    kernel(part);
  });
}

void CheckSlots(const Tensor& slots, int64_t count) {
  const int32_t* const data = slots.data<int32_t>();
  for (int64_t row = 0; row < slots.dim(0); ++row) {
    const int32_t* const begin = data + row * slots.row_stride();
    for (int64_t i = 0; i < slots.dim(1); ++i) {
      DT_CHECK(begin[i] >= 0 && begin[i] < count)
          << "slot " << begin[i] << " of row " << row << " is outside a cache of " << count;
    }
  }
}

}  // namespace

void AttentionForward(const Tensor& q, const Tensor& k, const Tensor& v,
                      const Sequences& query_sequences, const Sequences& key_sequences,
                      const AttentionOptions& options, Tensor& out, Tensor& log_sum_exp,
                      Stream& stream) {
  CheckInputs(q, k, v, query_sequences, key_sequences, options);
  CheckRows(out, q, query_sequences.tokens(), "out");
  CheckStatistics(log_sum_exp, query_sequences, options.num_heads);
  DT_CHECK_EQ(DeviceName(stream.device()), DeviceName(q.device()));
  if (q.elements() == 0) return;
  const AttentionArgs args =
      MakeAttentionArgs({q, k, v, out, log_sum_exp}, query_sequences, key_sequences, options);
  DispatchFloat(q, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      RunOnCpu<T>(args, query_sequences, key_sequences, AttentionForwardKernelCpu<T>);
    } else {
      AttentionForwardKernelCuda<T>(args, stream);
    }
  });
}

void AttentionBackward(const Tensor& d_out, const AttentionSaved& saved,
                       const Sequences& query_sequences, const Sequences& key_sequences,
                       const AttentionOptions& options, Tensor& dq, Tensor& dk, Tensor& dv,
                       Stream& stream) {
  const Tensor& q = saved.q;
  CheckInputs(q, saved.k, saved.v, query_sequences, key_sequences, options);
  CheckRows(saved.out, q, query_sequences.tokens(), "out");
  CheckStatistics(saved.log_sum_exp, query_sequences, options.num_heads);
  CheckRows(d_out, q, query_sequences.tokens(), "d_out");
  CheckRows(dq, q, query_sequences.tokens(), "dq");
  CheckRows(dk, q, key_sequences.tokens(), "dk");
  CheckRows(dv, q, key_sequences.tokens(), "dv");
  DT_CHECK_EQ(DeviceName(stream.device()), DeviceName(q.device()));
  if (q.elements() == 0 && saved.k.elements() == 0) return;
  AttentionArgs args = MakeAttentionArgs(saved, query_sequences, key_sequences, options);
  args.d_out = d_out.raw();
  args.dq = dq.raw();
  args.dk = dk.raw();
  args.dv = dv.raw();
  args.d_out_stride = d_out.row_stride();
  args.dq_stride = dq.row_stride();
  args.dk_stride = dk.row_stride();
  args.dv_stride = dv.row_stride();
  DispatchFloat(q, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      RunOnCpu<T>(args, query_sequences, key_sequences, AttentionBackwardKernelCpu<T>);
    } else {
      AttentionBackwardKernelCuda<T>(args, stream);
    }
  });
}

void CachedAttention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& slots,
                     int num_heads, Tensor& out, Stream& stream) {
  DT_CHECK_EQ(q.shape().rank(), 2) << "q is [rows, hidden]";
  DT_CHECK_GT(num_heads, 0);
  DT_CHECK_EQ(q.dim(1) % num_heads, 0) << "the hidden size must be a multiple of num_heads";
  CheckRows(out, q, q.dim(0), "out");
  CheckRows(keys, q, keys.dim(0), "keys");
  CheckRows(values, q, keys.dim(0), "values");
  DT_CHECK_EQ(slots.shape().rank(), 2) << "slots is [rows, length]";
  DT_CHECK_EQ(slots.dim(0), q.dim(0)) << "slots has a row per query";
  DT_CHECK_EQ(DeviceName(stream.device()), DeviceName(q.device()));
  if (q.elements() == 0) return;
  DT_CHECK_GT(slots.dim(1), 0) << "a row must attend to at least one slot";
  const int64_t head_dim = q.dim(1) / num_heads;
  CachedAttentionArgs args = {};
  args.q = q.raw();
  args.keys = keys.raw();
  args.values = values.raw();
  args.slots = slots.data<int32_t>();
  args.out = out.raw();
  args.q_stride = q.row_stride();
  args.keys_stride = keys.row_stride();
  args.values_stride = values.row_stride();
  args.slots_stride = slots.row_stride();
  args.out_stride = out.row_stride();
  args.length = slots.dim(1);
  args.num_heads = num_heads;
  args.head_dim = static_cast<int>(head_dim);
  args.scale = ScaleOf(0.0f, head_dim);
  DispatchFloat(q, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      CheckSlots(slots, keys.dim(0));
      const int64_t grain = std::max<int64_t>(1, kThreadWork / (args.length * q.dim(1)));
      ParallelFor(q.dim(0), grain, [&](int64_t begin, int64_t end) {
        CachedAttentionArgs part = args;
        part.first_row = begin;
        part.last_row = end;
        part.scratch = ThreadScratch<float>(0, args.length + 16);
        CachedAttentionKernelCpu<T>(part);
      });
    } else {
      CachedAttentionArgs all = args;
      all.last_row = q.dim(0);
      CachedAttentionKernelCuda<T>(all, stream);
    }
  });
}

}  // namespace dtrain
