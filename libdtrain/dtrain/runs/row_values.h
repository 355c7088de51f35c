// row_values.h - what an evaluation measured of each row, as a file beside the records of a run.
// SPDX-License-Identifier: Apache-2.0
//
//   RowValues values{.rows = {0, 1, 2}};
//   values.AddRatio("accuracy", {1, 0, 1}, {1, 1, 1});   // 2/3
//   DT_RETURN_IF_ERROR(WriteRowValues(path, values));
//
// From these an interval follows: rows are drawn again with replacement, and the metric is computed
// of their sums. docs/run-directory.md describes the file.
#ifndef DTRAIN_RUNS_ROW_VALUES_H_
#define DTRAIN_RUNS_ROW_VALUES_H_

#include <string>
#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/runs/evaluation_sample.h"

namespace dtrain {

// The names of the columns that hold counts of sentences (metrics/bleu.h, metrics/chrf.h).
inline constexpr std::string_view kBleuColumn = "bleu";
inline constexpr std::string_view kChrfColumn = "chrf";
// Columns of classifiers: labels, and predictions (of classes a probability each).
inline constexpr std::string_view kLabelColumn = "labels";
inline constexpr std::string_view kPredictionColumn = "predictions";

// The file of values in the run directory `run`; `which` is "last", "previous" or "best".
std::string RowValuesPath(const std::string& run, std::string_view which);

// Replaces the file. StorageError if it cannot be written.
Status WriteRowValues(const std::string& path, const RowValues& values);
// StorageError if there is no such file, or if it is damaged.
StatusOr<RowValues> ReadRowValues(const std::string& path);

}  // namespace dtrain

#endif  // DTRAIN_RUNS_ROW_VALUES_H_
