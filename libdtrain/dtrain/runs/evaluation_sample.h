// evaluation_sample.h - one sample of an evaluation, as a person reads it.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_EVALUATION_SAMPLE_H_
#define DTRAIN_RUNS_EVALUATION_SAMPLE_H_

#include <string>

namespace dtrain {

// What a model was given, what is right, and what it made of it: texts.
struct EvaluationSample {
  std::string source, reference, hypothesis;
};

}  // namespace dtrain

#endif  // DTRAIN_RUNS_EVALUATION_SAMPLE_H_
