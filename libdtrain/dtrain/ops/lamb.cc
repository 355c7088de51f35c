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

LambArgs MakeLambArgs(const LambTable& table, const Tensor& step, const LambOptions& options,
                      const LambTensors& tensors) {
  return {.step = reinterpret_cast<const AdamStep*>(step.data<float>()),
          .chunks = reinterpret_cast<const LambChunk*>(table.chunks.data<int64_t>()),
          .segments = reinterpret_cast<const LambSegmentInfo*>(table.segments.data<int64_t>()),
          .decays = table.decays.data<float>(),
          .squares = table.squares.data<double>(),
          .ratios = table.ratios.data<float>(),
          .num_chunks = table.chunks.dim(0),
          .num_segments = table.segments.dim(0),
          .gradients = tensors.gradients.data<float>(),
          .weights = tensors.weights.data<float>(),
          .m = tensors.m.data<float>(),
          .v = tensors.v.data<float>(),
          .copy = tensors.copy.raw(),
          .options = options};
}

// Adds chunks in order, so that the sum does not depend on the threads.
void TrustRatios(const LambArgs& args) {
  for (int64_t s = 0; s < args.num_segments; ++s) {
    const LambSegmentInfo& segment = args.segments[s];
    double weights = 0.0;
    double updates = 0.0;
    for (int64_t c = segment.first_chunk; c < segment.first_chunk + segment.chunks; ++c) {
      weights += args.squares[2 * c];
      updates += args.squares[2 * c + 1];
    }
    const bool adapts = segment.adapts != 0 && weights > 0.0 && updates > kSmallestSquares;
    args.ratios[s] = adapts ? static_cast<float>(std::sqrt(weights / updates)) : 1.0f;
  }
}

template <typename T>
void UpdateOnCpu(const LambArgs& args) {
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
  TrustRatios(args);
  for_chunks([](const LambArgs& piece) { LambWeightsKernelCpu<T>(piece); });
}

}  // namespace

LambTable MakeLambTable(std::span<const LambSegment> segments, Arena& arena, Stream& stream) {
  std::vector<int64_t> chunks;
  std::vector<int64_t> infos;
  std::vector<float> decays;
  LambTable table;
  for (const LambSegment& segment : segments) {
    DT_CHECK(segment.begin >= table.extent && segment.begin < segment.end)
        << "MakeLambTable: segment [" << segment.begin << ", " << segment.end << ") after "
        << table.extent;
    const auto index = static_cast<int64_t>(decays.size());
    const auto first_chunk = static_cast<int64_t>(chunks.size() / 3);
    for (int64_t begin = segment.begin; begin < segment.end; begin += kLambChunk) {
      chunks.insert(chunks.end(), {begin, std::min(begin + kLambChunk, segment.end), index});
    }
    infos.insert(infos.end(), {first_chunk, static_cast<int64_t>(chunks.size() / 3) - first_chunk,
                               segment.adapts ? 1 : 0});
    decays.push_back(segment.weight_decay);
    table.extent = segment.end;
  }
  DT_CHECK(!segments.empty()) << "MakeLambTable: no segments";
  const auto count = static_cast<int64_t>(chunks.size() / 3);
  const auto tensors = static_cast<int64_t>(decays.size());
  table.chunks = Empty(arena, {count, 3}, DType::kInt64);
  table.segments = Empty(arena, {tensors, 3}, DType::kInt64);
  table.decays = Empty(arena, {tensors}, DType::kFloat32);
  table.squares = Empty(arena, {count, 2}, DType::kFloat64);
  table.ratios = Empty(arena, {tensors}, DType::kFloat32);
  Upload<int64_t>(chunks, table.chunks, stream);
  Upload<int64_t>(infos, table.segments, stream);
  Upload<float>(decays, table.decays, stream);
  return table;
}

void LambUpdate(const LambTable& table, const Tensor& step, const LambOptions& options,
                LambTensors& tensors, Stream& stream) {
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
  CheckTensor(kOp, "m", tensors.m, shape, DType::kFloat32, stream);
  CheckTensor(kOp, "v", tensors.v, shape, DType::kFloat32, stream);
  CheckOptional(kOp, "copy", tensors.copy, shape, tensors.copy.dtype(), stream);
  const LambArgs args = MakeLambArgs(table, step, options, tensors);
  DispatchFloat(tensors.copy ? tensors.copy : tensors.weights, [&]<DeviceType D, typename T>() {
    if constexpr (D == DeviceType::kCpu) {
      UpdateOnCpu<T>(args);
    } else {
      LambKernelCuda<T>(args, stream);
    }
  });
}

}  // namespace dtrain
