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
#include <functional>
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

// A part of the elements: [begin, end).
struct LambPart {
  int64_t begin = 0, end = 0;
};

// The segments in the form the kernels read, split into chunks of equal work, on the stream's
// device.
struct LambTable {
  Tensor chunks;                 // [chunks, 4], int64: begin, end, index of the segment, of m and v
  Tensor segments;               // [segments, 3], int64: first chunk, number of chunks, adapts
  Tensor decays;                 // [segments], float32
  Tensor squares;                // [chunks, 2], float64: sums of w^2 and u^2 in the last update
  Tensor sums;                   // [segments, 2], float64: those of the segments
  Tensor ratios;                 // [segments], float32: r in the last update
  int64_t num_chunks = 0;        // may be 0; the tensors have at least one row
  int64_t extent = 0;            // the arenas must have at least this many elements
  bool has_even_moments = true;  // m and v lie at 16 bytes where the other arenas do
  int64_t moments = -1;          // elements of m and v; -1: as many as the other arenas have
};

// Segments must be in ascending order, not empty and not overlapping. Elements between them are
// never touched. The table's tensors come from `arena`.
LambTable MakeLambTable(std::span<const LambSegment> segments, Arena& arena, Stream& stream);
// Updates only the elements of `parts`, which are ascending and disjoint. m and v have these
// elements one after the other. For updates with `add_up`.
LambTable MakeLambTable(std::span<const LambSegment> segments, std::span<const LambPart> parts,
                        Arena& arena, Stream& stream);

struct LambOptions {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
};

// The flat arenas, each [n] and contiguous; m and v: see LambTable::moments.
struct LambTensors {
  Tensor gradients = {};  // float32; overwritten with u
  Tensor weights = {};    // float32
  Tensor m = {}, v = {};  // float32
  Tensor copy = {};       // receives the new weights, converted to its type; may be absent
};

// Called with table.sums, which hold the sums of this process's part, before the ratios are
// computed. It adds those of the other parts, in the order of the stream. A step that is skipped
// calls it on GPUs alone, and then uses nothing of it.
using LambAddUp = std::function<void(Tensor& sums, Stream& stream)>;

// step: [AdamStep::kValues], float32, the values of an AdamStep.
void LambUpdate(const LambTable& table, const Tensor& step, const LambOptions& options,
                LambTensors& tensors, Stream& stream, const LambAddUp& add_up = {});

}  // namespace dtrain

#endif  // DTRAIN_OPS_LAMB_H_
