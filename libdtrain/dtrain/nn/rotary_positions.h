// rotary_positions.h - the angles of rotary position embeddings, which layers share.
// SPDX-License-Identifier: Apache-2.0
//
//   RotaryPositions positions({.max_length = 512, .head_dim = 16, .theta = 10000.0f});
//   const Tensor& table = positions.Table(ctx);  // [512, 16]
#ifndef DTRAIN_NN_ROTARY_POSITIONS_H_
#define DTRAIN_NN_ROTARY_POSITIONS_H_

#include <cstdint>
#include <memory>

#include "dtrain/nn/context.h"

namespace dtrain {

// The table of FillRotaryTable() (ops/rotary.h). All layers with the same theta may share it.
class RotaryPositions {
 public:
  // The size of the table, and its largest wavelength.
  struct Options {
    int64_t max_length = 8192;  // length of the longest sequence
    int64_t head_dim = 64;      // must be even
    float theta = 10000.0f;     // the slowest pair of columns turns once in about 2 pi theta tokens
  };
  explicit RotaryPositions(const Options& options) : options_(options) {}

  int64_t max_length() const { return options_.max_length; }
  // [max_length, head_dim], float32, on the context's device. Filled at the first call.
  const Tensor& Table(const Context& ctx);

 private:
  Options options_;
  std::shared_ptr<Arena> arena_;
  Tensor table_;
};

}  // namespace dtrain

#endif  // DTRAIN_NN_ROTARY_POSITIONS_H_
