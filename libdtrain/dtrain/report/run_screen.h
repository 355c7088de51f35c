// run_screen.h - how a run stands, on one screen of a terminal.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(RunFacts run, ReadRun("runs/mine"));
//   for (const std::string& line : RunScreen(MakeReport(std::move(run)), {}))
//   std::puts(line.c_str());
#ifndef DTRAIN_REPORT_RUN_SCREEN_H_
#define DTRAIN_REPORT_RUN_SCREEN_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "dtrain/report/run_report.h"

namespace dtrain {

struct ScreenOptions {
  size_t columns = 80;
  size_t rows = 24;
  bool use_unicode = true;
};

// Lines of at most `rows`: progress and time left, curves, times of the ranks, what to change, last
// events. Parts that do not fit are cut, the last ones first. No line holds control characters; the
// caller cuts them to its width.
std::vector<std::string> RunScreen(const RunReport& report, const ScreenOptions& options);

// A curve of `width` characters, a place for the mean of each part: "▇▆▅▃▂▁". Values that are no
// numbers leave a blank. "" without any number.
std::string Sparkline(std::span<const double> values, size_t width, bool use_unicode);

// Seconds until the run ends, by its limits on updates and time; NaN if neither is set, or nothing
// is known of its speed. Evaluations to come are not counted.
double SecondsLeft(const RunReport& report);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_RUN_SCREEN_H_
