// dropout.h - dropout's factors element by element, straight from ops/dropout.h's definition.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_TESTING_REFERENCE_DROPOUT_H_
#define DTRAIN_TESTS_TESTING_REFERENCE_DROPOUT_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "dtrain/base/random.h"
#include "dtrain/ops/dropout.h"

namespace dtrain::reference {

// What element e is multiplied with: 0 or 1 / (1 - p).
inline double DropoutFactor(const Dropout& dropout, uint64_t e) {
  if (dropout.probability == 0.0f) return 1.0;
  const uint32_t word = Philox(dropout.key, e / 8)[(e % 8) / 2];
  const uint32_t draw = e % 2 == 0 ? word & 0xffffu : word >> 16;
  const double p = static_cast<double>(dropout.probability);
  return draw < static_cast<uint32_t>(std::lround(p * 65536.0)) ? 0.0 : 1.0 / (1.0 - p);
}

// x times the factors of elements 0, 1, 2, ...
inline std::vector<double> ApplyDropout(const Dropout& dropout, std::vector<double> x) {
  for (size_t e = 0; e < x.size(); ++e) x[e] *= DropoutFactor(dropout, e);
  return x;
}

}  // namespace dtrain::reference

#endif  // DTRAIN_TESTS_TESTING_REFERENCE_DROPOUT_H_
