// rotary_positions.cc - fills the shared table of angles when it is first needed.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/rotary_positions.h"

#include "dtrain/device/arena.h"
#include "dtrain/device/stream.h"
#include "dtrain/ops/rotary.h"

namespace dtrain {

const Tensor& RotaryPositions::Table(const Context& ctx) {
  if (!table_ || table_.device() != ctx.device()) {
    arena_ = Arena::Create(ctx.device(), "rotary positions");
    table_ = Empty(*arena_, {options_.max_length, options_.head_dim}, DType::kFloat32);
    Stream stream(ctx.device());
    FillRotaryTable(options_.theta, table_, stream);
    stream.Synchronize();
  }
  return table_;
}

}  // namespace dtrain
