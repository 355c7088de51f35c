// first_token.cc - gathers the first rows, and scatters their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/nn/first_token.h"

#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "dtrain/ops/cast.h"

namespace dtrain {
namespace {

Tensor FirstRows(const Sequences& sequences, Context& ctx) {
  const int64_t count = sequences.count();
  for (int64_t s = 0; s < count; ++s) {
    DT_CHECK_GT(sequences.length(s), 0) << "sequence " << s << " has no first token";
  }
  const Tensor& offsets = sequences.device_offsets();
  if (offsets) return offsets.Rows(0, count);
  return ctx.Upload(std::span(sequences.offsets()).first(static_cast<size_t>(count)));
}

}  // namespace

Tensor FirstToken(const Tensor& x, const Sequences& sequences, Context& ctx) {
  DT_CHECK_EQ(x.dim(0), sequences.tokens());
  Tensor y = ctx.Empty({sequences.count(), x.dim(1)});
  GatherRows(x, FirstRows(sequences, ctx), y, ctx.stream());
  return y;
}

Sequences OneTokenEach(int64_t count) {
  std::vector<int32_t> offsets(static_cast<size_t>(count) + 1);
  std::iota(offsets.begin(), offsets.end(), 0);
  return Sequences(std::move(offsets));
}

OutputRows FirstTokenRows(const Sequences& sequences, const Sequences& one_each, Context& ctx) {
  DT_CHECK_EQ(one_each.count(), sequences.count());
  return {FirstRows(sequences, ctx), one_each};
}

Tensor FirstTokenBackward(const Tensor& dy, const Sequences& sequences, Context& ctx) {
  DT_CHECK_EQ(dy.dim(0), sequences.count());
  Tensor dx = ctx.Empty({sequences.tokens(), dy.dim(1)});
  Zero(dx, ctx.stream());
  ScatterAddRows(dy, FirstRows(sequences, ctx), dx, ctx.stream());
  return dx;
}

}  // namespace dtrain
