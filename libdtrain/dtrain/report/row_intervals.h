// row_intervals.h - how sure a metric is: rows of an evaluation are drawn again and again.
// SPDX-License-Identifier: Apache-2.0
//
//   const std::optional<Interval> bleu = IntervalOf(*run.last_rows, "bleu");
//   const std::optional<Interval> gained = DifferenceOf(*run.last_rows, *run.previous_rows,
//   "bleu");
//
// Koehn, "Statistical Significance Tests for Machine Translation Evaluation" (EMNLP 2004). A
// difference of two evaluations of the same rows is paired: both are computed of the same draw, so
// that rows which are hard for both do not count as noise.
#ifndef DTRAIN_REPORT_ROW_INTERVALS_H_
#define DTRAIN_REPORT_ROW_INTERVALS_H_

#include <optional>
#include <string_view>

#include "dtrain/runs/row_values.h"

namespace dtrain {

struct Interval {
  double value = 0.0;
  double error = 0.0;  // standard error
  double low = 0.0;    // 95 % of the draws lie between
  double high = 0.0;
};

// Half of the 95 % interval.
inline double HalfWidth(const Interval& interval) { return (interval.high - interval.low) / 2.0; }

// The interval of a metric as evaluations record it. Nothing if the rows do not have its values (or
// it is no sum over rows, as AUC is not), or for fewer than 2 rows. The draws have a fixed seed;
// there are 1,000, or fewer for many rows.
std::optional<Interval> IntervalOf(const RowValues& rows, std::string_view metric);

// The interval of `rows` minus `other`. Nothing if they are not of the same rows.
std::optional<Interval> DifferenceOf(const RowValues& rows, const RowValues& other,
                                     std::string_view metric);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_ROW_INTERVALS_H_
