// evaluation_sample.h - one sample of an evaluation, for human readers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_EVALUATION_SAMPLE_H_
#define DTRAIN_RUNS_EVALUATION_SAMPLE_H_

#include <string>

namespace dtrain {

// The model's input, the correct output, and the model's output, as texts.
struct EvaluationSample {
  std::string source, reference, hypothesis;
};

}  // namespace dtrain

#endif  // DTRAIN_RUNS_EVALUATION_SAMPLE_H_
