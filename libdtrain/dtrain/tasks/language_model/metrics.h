// metrics.h - how well a language model predicts a text.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_LANGUAGE_MODEL_METRICS_H_
#define DTRAIN_TASKS_LANGUAGE_MODEL_METRICS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

// The names of LanguageModelMetrics(), in its order. Smaller is better.
std::vector<std::string> LanguageModelMetricNames();

// `nll`: the sum of -log p over `tokens` predicted tokens, in nats. `bytes`: the length of the text
// that they make.
//   loss           nll / tokens
//   ppl            exp(loss)
//   bits_per_byte  nll / ln 2 / bytes: comparable between models with different tokens
std::vector<std::pair<std::string, double>> LanguageModelMetrics(double nll, int64_t tokens,
                                                                 int64_t bytes);

}  // namespace dtrain

#endif  // DTRAIN_TASKS_LANGUAGE_MODEL_METRICS_H_
