// fused_attention_cuda.cu - attention by cuDNN: when to use it, and how its tensors are passed.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "dtrain/base/log.h"
#include "dtrain/device/cuda/fused_attention.h"
#include "dtrain/device/cuda/launch.cuh"
#include "dtrain/ops/internal/attention_device.h"
#include "dtrain/ops/internal/attention_plans.h"
#include "dtrain/ops/internal/autotune.h"

namespace dtrain {
namespace {

using cuda::AttentionTensor;
using cuda::FusedAttention;
using cuda::FusedAttentionShape;
using cuda::kAttentionTensors;

constexpr int kMaxHeadDim = 128;  // the limit of backward on all GPUs

// Writes the start of each sequence in each tensor, and its length, in the form cuDNN reads. A
// graph may have more sequences than the batch; those from `filled` on are empty. Geometry: a
// thread per sequence, plus one. Time: that of a launch.
constexpr int kLayoutThreads = 128;
struct LayoutArgs {
  const int32_t* query_offsets;
  const int32_t* key_offsets;
  int64_t* offsets;  // [tensors, sequences + 1]
  int32_t* lengths;  // [2, sequences]: lengths of queries, lengths of keys
  int64_t strides[kAttentionTensors];
  bool of_keys[kAttentionTensors];
  int tensors;
  int64_t sequences, filled;
};
__global__ void __launch_bounds__(kLayoutThreads) FusedAttentionLayoutKernel(LayoutArgs args) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i > args.sequences) return;
  const int64_t at = i < args.filled ? i : args.filled;
  const int64_t next = i < args.filled ? i + 1 : args.filled;
  const int32_t query = args.query_offsets[at];
  const int32_t key = args.key_offsets[at];
  for (int t = 0; t < args.tensors; ++t) {
    args.offsets[t * (args.sequences + 1) + i] = (args.of_keys[t] ? key : query) * args.strides[t];
  }
  if (i == args.sequences) return;
  args.lengths[i] = args.query_offsets[next] - query;
  args.lengths[args.sequences + i] = args.key_offsets[next] - key;
}

// Finds or builds the graph for a shape and device. A thread runs one rank, and shapes are rounded,
// so a run has few graphs.
FusedAttention* FindGraph(const FusedAttentionShape& shape, const Device& device) {
  thread_local std::map<std::pair<int, FusedAttentionShape>, std::unique_ptr<FusedAttention>>
      graphs;
  const auto [found, is_new] = graphs.try_emplace({device.index, shape});
  if (!is_new) return found->second.get();
  std::string why;
  found->second = FusedAttention::Make(shape, device, why);
  if (found->second == nullptr) {
    LogWarning("cuDNN has no " + std::string(shape.backward ? "backward" : "forward") +
               " attention for heads of " + std::to_string(shape.head_dim) + " and up to " +
               std::to_string(shape.max_queries) + " x " + std::to_string(shape.max_keys) +
               " positions (" + why + "); dtrain's own kernel is used");
  }
  return found->second.get();
}

// A sequence without queries still needs zero gradients for its keys, which cuDNN does not promise
// to write.
bool HasEmptySequence(const AttentionArgs& args) {
  for (int64_t i = 0; i < args.sequences; ++i) {
    if (args.query_offsets[i] == args.query_offsets[i + 1]) return true;
    if (args.key_offsets[i] == args.key_offsets[i + 1]) return true;
  }
  return false;
}

bool CanTake(const AttentionArgs& args, DType type, bool backward) {
  return type != DType::kFloat32 && args.dropout_threshold == 0 && args.window == 0 &&
         args.head_dim % 8 == 0 && args.head_dim <= kMaxHeadDim && args.scale > 0.0f &&
         AreAligned(args, backward) && !HasEmptySequence(args);
}

int64_t RoundUp(int64_t count) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
}

int64_t LongestKeys(const AttentionArgs& args) {
  int64_t longest = 0;
  for (int64_t i = 0; i < args.sequences; ++i) {
    longest = std::max<int64_t>(longest, args.key_offsets[i + 1] - args.key_offsets[i]);
  }
  return longest;
}

FusedAttentionShape ShapeOf(const AttentionArgs& args, DType type, bool backward) {
  FusedAttentionShape shape{
      .sequences = RoundUp(args.sequences),
      .max_queries = RoundAttentionLength(args.max_queries),
      .max_keys = RoundAttentionLength(LongestKeys(args)),
      .query_tokens = RoundUp(args.query_offsets[args.sequences]),
      .key_tokens = RoundUp(args.key_offsets[args.sequences]),
      .num_heads = args.num_heads,
      .head_dim = args.head_dim,
      .causal = args.causal,
      .backward = backward,
      .type = type,
      .strides = {args.q_stride, args.k_stride, args.v_stride, args.out_stride, args.num_heads}};
  if (backward) {
    const int64_t gradients[] = {args.d_out_stride, args.dq_stride, args.dk_stride, args.dv_stride};
    std::copy(std::begin(gradients), std::end(gradients),
              shape.strides.begin() + cuda::kForwardTensors);
  }
  return shape;
}

void RunGraph(FusedAttention& graph, const FusedAttentionShape& shape,
              const AttentionArgs& host_args, Stream& stream) {
  constexpr size_t kAlignment = 256;
  const auto rows = static_cast<size_t>(shape.sequences) + 1;
  const size_t offset_bytes = shape.tensors() * rows * sizeof(int64_t);
  const size_t layout_bytes = offset_bytes + 2 * rows * sizeof(int32_t);
  const size_t begin = (layout_bytes + kAlignment - 1) / kAlignment * kAlignment;
  const auto [args, scratch] = PutOnDevice(host_args, begin + graph.workspace_bytes(), stream);
  LayoutArgs layout{.query_offsets = args.query_offsets,
                    .key_offsets = args.key_offsets,
                    .offsets = reinterpret_cast<int64_t*>(scratch),
                    .lengths = reinterpret_cast<int32_t*>(scratch + offset_bytes),
                    .strides = {},
                    .of_keys = {},
                    .tensors = static_cast<int>(shape.tensors()),
                    .sequences = shape.sequences,
                    .filled = args.sequences};
  cuda::FusedAttentionOperands operands{
      .tensors = {const_cast<void*>(args.q), const_cast<void*>(args.k), const_cast<void*>(args.v),
                  args.out, args.log_sum_exp, const_cast<void*>(args.d_out), args.dq, args.dk,
                  args.dv},
      .offsets = {},
      .query_lengths = layout.lengths,
      .key_lengths = layout.lengths + shape.sequences,
      .workspace = scratch + begin,
      .scale = args.scale};
  for (size_t i = 0; i < shape.tensors(); ++i) {
    layout.strides[i] = shape.strides[i];
    layout.of_keys[i] = cuda::IsOfKeys(static_cast<AttentionTensor>(i));
    operands.offsets[i] = layout.offsets + i * rows;
  }
  Launch(
      FusedAttentionLayoutKernel,
      {.blocks = {(shape.sequences + kLayoutThreads) / kLayoutThreads}, .threads = kLayoutThreads},
      layout, stream);
  graph.Run(operands, stream);
}

// Measures both engines and returns the faster; ours if cuDNN has no kernel.
AttentionPlan Measure(const FusedAttentionShape& shape, const AttentionArgs& args,
                      const std::function<void()>& native, Stream& stream) {
  FusedAttention* const graph = FindGraph(shape, stream.device());
  StreamTimer timer(stream);
  const auto fastest = ChooseFastest(graph == nullptr ? 1 : 2, [&](size_t i) {
    return timer.Time([&] {
      i == 0 ? native() : RunGraph(*graph, shape, args, stream);
      return true;
    });
  });
  return {.cudnn = fastest->index == 1, .microseconds = 1e6 * fastest->seconds};
}

bool IsFaster(const FusedAttentionShape& shape, const AttentionArgs& args,
              const std::function<void()>& native, Stream& stream) {
  const AttentionPlanShape key{.max_queries = shape.max_queries,
                               .max_keys = shape.max_keys,
                               .num_heads = shape.num_heads,
                               .head_dim = shape.head_dim,
                               .causal = shape.causal,
                               .backward = shape.backward,
                               .type = shape.type};
  if (MeasuresAttention() && !CurrentAttentionPlans().contains(key)) {
    AddAttentionPlan(key, Measure(shape, args, native, stream));
  }
  const auto known = CurrentAttentionPlans().find(key);
  return known != CurrentAttentionPlans().end() && known->second.cudnn;
}

}  // namespace

bool RunFusedAttention(const AttentionArgs& host_args, DType type, bool backward,
                       const std::function<void()>& native, Stream& stream) {
  const AttentionEngine engine = CurrentAttentionEngine();
  const bool is_ours = engine == AttentionEngine::kNative || engine == AttentionEngine::kWarpgroups;
  if (is_ours || !CanTake(host_args, type, backward)) return false;
  const FusedAttentionShape shape = ShapeOf(host_args, type, backward);
  if (engine == AttentionEngine::kAuto && !IsFaster(shape, host_args, native, stream)) return false;
  FusedAttention* const graph = FindGraph(shape, stream.device());
  if (graph == nullptr) return false;
  RunGraph(*graph, shape, host_args, stream);
  return true;
}

}  // namespace dtrain
