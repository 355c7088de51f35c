// rotary.h - the rotary embeddings of ops/rotary.h in double, as plain loops.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_REFERENCE_ROTARY_H_
#define DTRAIN_TESTS_TESTING_REFERENCE_ROTARY_H_

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain::reference {

// x: a row of heads of `head_dim` columns for each position. direction: 1, or -1 to turn back.
inline std::vector<double> Rotary(const std::vector<double>& x,
                                  const std::vector<int32_t>& positions, size_t head_dim,
                                  double theta, double direction) {
  const size_t columns = x.size() / positions.size();
  const size_t half = head_dim / 2;
  std::vector<double> turned(x.size());
  for (size_t r = 0; r < positions.size(); ++r) {
    for (size_t head = 0; head < columns; head += head_dim) {
      for (size_t k = 0; k < half; ++k) {
        const size_t at = r * columns + head + k;
        const double frequency =
            std::pow(theta, -2.0 * static_cast<double>(k) / static_cast<double>(head_dim));
        const std::complex<double> point =
            std::complex<double>(x[at], x[at + half]) *
            std::polar(1.0, direction * static_cast<double>(positions[r]) * frequency);
        turned[at] = point.real();
        turned[at + half] = point.imag();
      }
    }
  }
  return turned;
}

}  // namespace dtrain::reference

#endif  // DTRAIN_TESTS_TESTING_REFERENCE_ROTARY_H_
