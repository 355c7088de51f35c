// shortest_decimal.h - the decimal number that a float in the configuration was written as.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_CONFIG_INTERNAL_SHORTEST_DECIMAL_H_
#define DTRAIN_CONFIG_INTERNAL_SHORTEST_DECIMAL_H_

#include <charconv>

namespace dtrain::internal {

// The double nearest to the shortest decimal that gives this float. ShortestDecimal(0.1F) is 0.1,
// where a cast would give 0.10000000149.
inline double ShortestDecimal(float value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  double result = static_cast<double>(value);
  if (error == std::errc()) std::from_chars(text, end, result);
  return result;
}

}  // namespace dtrain::internal

#endif  // DTRAIN_CONFIG_INTERNAL_SHORTEST_DECIMAL_H_
