// dropout.h - dropout's factors element by element, straight from ops/dropout.h's definition.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_REFERENCE_DROPOUT_H_
#define DTRAIN_TESTS_TESTING_REFERENCE_DROPOUT_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/ops/dropout.h"

namespace dtrain::reference {

// What an element is multiplied with that has this half of a draw's words: 0 or 1 / (1 - p).
inline double FactorOfHalf(const Dropout& dropout, const std::array<uint32_t, 4>& words,
                           uint64_t half) {
  const uint32_t word = words[half / 2];
  const uint32_t bits = (half % 2 == 0 ? word : word >> 16) & 0x7fffu;
  const double p = static_cast<double>(dropout.probability);
  return bits < static_cast<uint32_t>(std::lround(p * 32768.0)) ? 0.0 : 1.0 / (1.0 - p);
}

// What element e is multiplied with.
inline double DropoutFactor(const Dropout& dropout, uint64_t e) {
  if (dropout.probability == 0.0f) return 1.0;
  return FactorOfHalf(dropout, Philox<7>(dropout.key, e / 8), e % 8);
}

// x times the factors of elements 0, 1, 2, ...
inline std::vector<double> ApplyDropout(const Dropout& dropout, std::vector<double> x) {
  for (size_t e = 0; e < x.size(); ++e) x[e] *= DropoutFactor(dropout, e);
  return x;
}

}  // namespace dtrain::reference

#endif  // DTRAIN_TESTS_TESTING_REFERENCE_DROPOUT_H_
