// metrics.cc - means and exponentials of a sum.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/language_model/metrics.h"

#include <algorithm>
#include <cmath>

namespace dtrain {

std::vector<std::string> LanguageModelMetricNames() { return {"loss", "ppl", "bits_per_byte"}; }

std::vector<std::pair<std::string, double>> LanguageModelMetrics(double nll, int64_t tokens,
                                                                 int64_t bytes) {
  const double loss = nll / static_cast<double>(tokens);
  // A window may hold the end of a text alone.
  const double bits = nll / M_LN2 / static_cast<double>(std::max<int64_t>(bytes, 1));
  return {{"loss", loss}, {"ppl", std::exp(loss)}, {"bits_per_byte", bits}};
}

}  // namespace dtrain
