// evaluation_sample.h - what an evaluation gives of single rows: samples to read, and values.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_RUNS_EVALUATION_SAMPLE_H_
#define DTRAIN_RUNS_EVALUATION_SAMPLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// The model's input, the correct output, and the model's output, as texts.
struct EvaluationSample {
  std::string source, reference, hypothesis;
};

// Values of each row (runs/row_values.h): from them follows how sure a metric is.
struct RowValues {
  // `width` numbers of each row, one row after the other.
  struct Column {
    std::string name = {};
    int64_t width = 1;
    std::vector<float> values = {};
  };

  int64_t step = 0;                  // updates so far
  std::vector<int32_t> rows = {};    // numbers of the rows in their set, from 0
  std::vector<Column> columns = {};  // each with a value for each of `rows`

  // The columns NAME.sum and NAME.count of a metric that is the sum of the first, over all rows,
  // divided by that of the second.
  void AddRatio(std::string_view name, std::vector<float> sums, std::vector<float> counts);
  // Null if there is none of that name, or one whose size does not fit `rows`.
  const Column* Find(std::string_view name) const;
};

}  // namespace dtrain

#endif  // DTRAIN_RUNS_EVALUATION_SAMPLE_H_
