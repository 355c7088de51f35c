// lamb.h - one LAMB update of all tensors of a model, over its flat arenas.
// SPDX-License-Identifier: Apache-2.0
//
// You et al., "Large Batch Optimization for Deep Learning" (2020), algorithm 2, with bias
// correction and with epsilon outside of the root, as in NVIDIA's multi_tensor_lamb. For each
// tensor, with t counted from 1:
//   g = gradient_scale * gradient
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay w
//   r = ||w|| / ||u|| if the tensor adapts and both norms are above 0, else 1
//   w -= lr r u
// The update reads the elements twice, because a tensor's norms must be known before its weights
// change.
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
  bool adapts = true;  // uses the trust ratio r
};

// The segments in the form the kernels read, split into chunks of equal work, on the stream's
// device.
struct LambTable {
  Tensor chunks;       // [chunks, 3], int64: begin, end, index of the segment
  Tensor segments;     // [segments, 3], int64: first chunk, number of chunks, adapts
  Tensor decays;       // [segments], float32
  Tensor squares;      // [chunks, 2], float64: sums of w^2 and u^2 in the last update
  Tensor ratios;       // [segments], float32: r in the last update
  int64_t extent = 0;  // the arenas must have at least this many elements
};

// Segments must be in ascending order, not empty and not overlapping. Elements between them are
// never touched. The table's tensors come from `arena`.
LambTable MakeLambTable(std::span<const LambSegment> segments, Arena& arena, Stream& stream);

struct LambOptions {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
};

// The flat arenas, each [n] and contiguous.
struct LambTensors {
  Tensor gradients = {};  // float32; overwritten with u
  Tensor weights = {};    // float32
  Tensor m = {}, v = {};  // float32
  Tensor copy = {};       // receives the new weights, converted to its type; may be absent
};

// step: [AdamStep::kValues], float32, the values of an AdamStep.
void LambUpdate(const LambTable& table, const Tensor& step, const LambOptions& options,
                LambTensors& tensors, Stream& stream);

}  // namespace dtrain

#endif  // DTRAIN_OPS_LAMB_H_
