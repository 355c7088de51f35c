// adasum.cc - pairs of ranks exchange whole gradients and compute the same join.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/adasum.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/check.h"

namespace dtrain {
namespace {

// `joined` may be one of the two.
void Join(std::span<const float> a, std::span<const float> b, std::span<float> joined) {
  // In double: squares of float32 do not overflow there.
  double product = 0;
  double a_square = 0;
  double b_square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const double y = b[i];
    product += x * y;
    a_square += x * x;
    b_square += y * y;
  }
  const double a_factor = a_square > 0 ? 1 - product / (2 * a_square) : 1;
  const double b_factor = b_square > 0 ? 1 - product / (2 * b_square) : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a_factor * a[i];
    const double y = b_factor * b[i];
    joined[i] = static_cast<float>(x + y);
  }
}

// What this rank sends to, or receives from, `partner` alone.
std::vector<int64_t> OffsetsOf(int partner, int64_t bytes, int ranks) {
  std::vector<int64_t> offsets(static_cast<size_t>(ranks) + 1, 0);
  std::fill(offsets.begin() + partner + 1, offsets.end(), bytes);
  return offsets;
}

}  // namespace

Status Adasum(std::span<const Tensor> gradients, Communicator& comm) {
  if (!std::has_single_bit(static_cast<unsigned>(comm.size()))) {
    return UsageError(
        absl::StrCat("Adasum joins ranks in pairs: start 2, 4, 8, ... of them, not ", comm.size()));
  }
  std::vector<float> own;
  for (const Tensor& gradient : gradients) {
    DT_CHECK(gradient.dtype() == DType::kFloat32 && gradient.is_contiguous());
    const float* const values = gradient.data<float>();
    own.insert(own.end(), values, values + gradient.elements());
  }
  std::vector<float> other(own.size());
  const auto bytes = static_cast<int64_t>(own.size() * sizeof(float));
  for (int bit = 1; bit < comm.size(); bit *= 2) {
    const std::vector<int64_t> offsets = OffsetsOf(comm.rank() ^ bit, bytes, comm.size());
    comm.StartAllToAllV(own.data(), offsets, other.data(), offsets)->Wait();
    size_t at = 0;
    for (const Tensor& gradient : gradients) {
      const auto size = static_cast<size_t>(gradient.elements());
      const std::span<float> mine = std::span(own).subspan(at, size);
      const std::span<const float> theirs = std::span(other).subspan(at, size);
      // In the ranks' order, so that both compute the same bits.
      const bool is_first = (comm.rank() & bit) == 0;
      Join(is_first ? mine : theirs, is_first ? theirs : mine, mine);
      at += size;
    }
  }
  const float* joined = own.data();
  for (const Tensor& gradient : gradients) {
    std::copy_n(joined, gradient.elements(), gradient.data<float>());
    joined += gradient.elements();
  }
  return OkStatus();
}

}  // namespace dtrain
