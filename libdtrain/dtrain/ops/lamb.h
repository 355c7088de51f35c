// lamb.h - one LAMB update of all tensors of a model at once, over its flat arenas.
// SPDX-License-Identifier: Apache-2.0
//
// You et al., "Large Batch Optimization for Deep Learning" (2020), algorithm 2, bias-corrected,
// with epsilon outside of the root as in NVIDIA's multi_tensor_lamb. Of each tensor, t counted from
// 1:
//   g = gradient_scale * gradient
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay w
//   r = ||w|| / ||u|| if the tensor adapts and both norms are above 0, else 1
//   w -= lr r u
// Two passes over the elements: no weight can move before its tensor's norms are known.
#ifndef DTRAIN_OPS_LAMB_H_
#define DTRAIN_OPS_LAMB_H_

#include <cstdint>
#include <span>

#include "dtrain/device/arena.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"
#include "dtrain/ops/adam.h"

namespace dtrain {

// One tensor: elements [begin, end) of the arenas.
struct LambSegment {
  int64_t begin = 0, end = 0;
  float weight_decay = 0.0f;
  bool adapts = true;  // has a trust ratio
};

// The segments as the kernels read them, cut into chunks of equal work, on the stream's device.
struct LambTable {
  Tensor chunks;       // [chunks, 3], int64: begin, end, segment
  Tensor segments;     // [segments, 3], int64: first chunk, chunks, adapts
  Tensor decays;       // [segments], float32
  Tensor squares;      // [chunks, 2], float64: sums of w^2 and u^2, of the last update
  Tensor ratios;       // [segments], float32: r of the last update
  int64_t extent = 0;  // the arenas reach at least to here
};

// Segments are not empty, in ascending order and do not overlap; what lies between them is never
// touched. The tensors come from `arena`.
LambTable MakeLambTable(std::span<const LambSegment> segments, Arena& arena, Stream& stream);

struct LambOptions {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
};

// The flat arenas, each [n], contiguous.
struct LambTensors {
  Tensor gradients = {};  // float32; holds u afterwards
  Tensor weights = {};    // float32
  Tensor m = {}, v = {};  // float32
  Tensor copy = {};       // receives the new weights in its own type, or absent
};

// step: [AdamStep::kValues], float32, the values of a AdamStep.
void LambUpdate(const LambTable& table, const Tensor& step, const LambOptions& options,
                LambTensors& tensors, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_LAMB_H_
