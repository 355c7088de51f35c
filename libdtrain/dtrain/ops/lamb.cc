// lamb.cc - checks the arguments, then splits the chunks among the threads.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/ops/lamb.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dtrain/base/thread_pool.h"
#include "dtrain/device/dispatch.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/internal/lamb_kernel.h"
#include "dtrain/ops/internal/op_support.h"

namespace dtrain {
namespace {

constexpr int64_t kChunkValues = sizeof(LambChunk) / sizeof(int64_t);
constexpr int64_t kLambAlignment = 4;  // elements, of the kernels' packs

LambArgs MakeLambArgs(const LambTable& table, const Tensor& step, const LambOptions& options,
                      const LambTensors& tensors) {
  return {.step = reinterpret_cast<const AdamStep*>(step.data<float>()),
          .chunks = reinterpret_cast<const LambChunk*>(table.chunks.data<int64_t>()),
          .segments = reinterpret_cast<const LambSegmentInfo*>(table.segments.data<int64_t>()),
          .decays = table.decays.data<float>(),
          .squares = table.squares.data<double>(),
          .sums = table.sums.data<double>(),
          .ratios = table.ratios.data<float>(),
          .num_chunks = table.num_chunks,
          .num_segments = table.segments.dim(0),
          .has_even_moments = table.has_even_moments,
          .gradients = tensors.gradients.data<float>(),
          .weights = tensors.weights.data<float>(),
          .m = tensors.m.data<float>(),
          .v = tensors.v.data<float>(),
          .copy = tensors.copy.raw(),
          .options = options};
}

// Adds chunks in order, so that the sum does not depend on the threads.
void AddChunks(const LambArgs& args) {
  for (int64_t s = 0; s < args.num_segments; ++s) {
    const LambSegmentInfo& segment = args.segments[s];
    double weights = 0.0;
    double updates = 0.0;
    for (int64_t c = segment.first_chunk; c < segment.first_chunk + segment.chunks; ++c) {
      weights += args.squares[2 * c];
      updates += args.squares[2 * c + 1];
    }
    args.sums[2 * s] = weights;
    args.sums[2 * s + 1] = updates;
  }
}

void TrustRatios(const LambArgs& args) {
  for (int64_t s = 0; s < args.num_segments; ++s) {
    const double weights = args.sums[2 * s];
    const double updates = args.sums[2 * s + 1];
    const bool adapts = args.segments[s].adapts != 0 && weights > 0.0 && updates > kSmallestSquares;
    args.ratios[s] = adapts ? static_cast<float>(std::sqrt(weights / updates)) : 1.0f;
  }
}

template <typename T, typename AddUp>
void UpdateOnCpu(const LambArgs& args, const AddUp& add_up) {
  const AdamStep& now = *args.step;
  if (now.skip != 0.0f) return;
  DT_CHECK(now.bias_correction1 > 0.0f && now.bias_correction2 > 0.0f)
      << "LambUpdate: the bias corrections are " << now.bias_correction1 << " and "
      << now.bias_correction2 << ", must be above 0";
  const auto for_chunks = [&](auto kernel) {
    ParallelFor(args.num_chunks, kGrainElements / kLambChunk, [&](int64_t begin, int64_t end) {
      LambArgs piece = args;
      for (piece.chunk = begin; piece.chunk < end; ++piece.chunk) kernel(piece);
    });
  };
  for_chunks([](const LambArgs& piece) { LambMomentsKernelCpu<float>(piece); });
  AddChunks(args);
  add_up();
  TrustRatios(args);
  for_chunks([](const LambArgs& piece) { LambWeightsKernelCpu<T>(piece); });
}

}  // namespace

LambTable MakeLambTable(std::span<const LambSegment> segments, Arena& arena, Stream& stream) {
  DT_CHECK(!segments.empty()) << "MakeLambTable: no segments";
  const LambPart all = {0, segments.back().end};
  LambTable table = MakeLambTable(segments, {&all, 1}, arena, stream);
  table.moments = -1;
  return table;
}

LambTable MakeLambTable(std::span<const LambSegment> segments, std::span<const LambPart> parts,
                        Arena& arena, Stream& stream) {
  std::vector<int64_t> chunks;
  std::vector<int64_t> infos;
  std::vector<float> decays;
  LambTable table;
  for (const LambSegment& segment : segments) {
    DT_CHECK(segment.begin >= table.extent && segment.begin < segment.end)
        << "MakeLambTable: segment [" << segment.begin << ", " << segment.end << ") after "
        << table.extent;
    const auto index = static_cast<int64_t>(decays.size());
    const auto first_chunk = static_cast<int64_t>(chunks.size()) / kChunkValues;
    int64_t moments = 0;  // of the parts before
    for (const LambPart& part : parts) {
      const int64_t end = std::min(segment.end, part.end);
      for (int64_t begin = std::max(segment.begin, part.begin); begin < end; begin += kLambChunk) {
        chunks.insert(chunks.end(), {begin, std::min(begin + kLambChunk, end), index,
                                     moments + begin - part.begin});
      }
      moments += part.end - part.begin;
    }
    infos.insert(infos.end(),
                 {first_chunk, static_cast<int64_t>(chunks.size()) / kChunkValues - first_chunk,
                  segment.adapts ? 1 : 0});
    decays.push_back(segment.weight_decay);
    table.extent = segment.end;
  }
  int64_t moments = 0;
  for (const LambPart& part : parts) {
    table.has_even_moments &= (moments - part.begin) % kLambAlignment == 0;
    moments += part.end - part.begin;
  }
  table.moments = moments;
  table.num_chunks = static_cast<int64_t>(chunks.size()) / kChunkValues;
  if (chunks.empty()) chunks.resize(kChunkValues);
  const auto count = static_cast<int64_t>(chunks.size()) / kChunkValues;
  const auto tensors = static_cast<int64_t>(decays.size());
  table.chunks = Empty(arena, {count, kChunkValues}, DType::kInt64);
  table.segments = Empty(arena, {tensors, 3}, DType::kInt64);
  table.decays = Empty(arena, {tensors}, DType::kFloat32);
  table.squares = Empty(arena, {count, 2}, DType::kFloat64);
  table.sums = Empty(arena, {tensors, 2}, DType::kFloat64);
  table.ratios = Empty(arena, {tensors}, DType::kFloat32);
  Upload<int64_t>(chunks, table.chunks, stream);
  Upload<int64_t>(infos, table.segments, stream);
  Upload<float>(decays, table.decays, stream);
  return table;
}

void LambUpdate(const LambTable& table, const Tensor& step, const LambOptions& options,
                LambTensors& tensors, Stream& stream, const LambAddUp& add_up) {
  constexpr const char* kOp = "LambUpdate";
  DT_CHECK(static_cast<bool>(table.chunks)) << kOp << ": the table must come from MakeLambTable()";
  CheckRank(kOp, "weights", tensors.weights, 1);
  const Shape& shape = tensors.weights.shape();
  DT_CHECK_GE(shape[0], table.extent)
      << kOp << ": the last segment ends after the end of the arenas";
  CheckTensor(kOp, "table.chunks", table.chunks, table.chunks.shape(), DType::kInt64, stream);
  CheckTensor(kOp, "weights", tensors.weights, shape, DType::kFloat32, stream);
  CheckTensor(kOp, "gradients", tensors.gradients, shape, DType::kFloat32, stream);
  static_assert(sizeof(AdamStep) == AdamStep::kValues * sizeof(float));
  CheckTensor(kOp, "step", step, {AdamStep::kValues}, DType::kFloat32, stream);
  const Shape moments = {table.moments < 0 ? shape[0] : table.moments};
  if (table.num_chunks > 0) {
    CheckTensor(kOp, "m", tensors.m, moments, DType::kFloat32, stream);
    CheckTensor(kOp, "v", tensors.v, moments, DType::kFloat32, stream);
  }
  CheckOptional(kOp, "copy", tensors.copy, shape, tensors.copy.dtype(), stream);
  const LambArgs args = MakeLambArgs(table, step, options, tensors);
  const auto add = [&] {
    Tensor sums = table.sums;
    if (add_up) add_up(sums, stream);
  };
  DispatchFloat(tensors.copy ? tensors.copy : tensors.weights, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      UpdateOnCpu<T>(args, add);
    } else {
      LambMomentsCuda(args, stream);
      add();
      LambWeightsCuda<T>(args, stream);
    }
  });
}

}  // namespace dtrain
