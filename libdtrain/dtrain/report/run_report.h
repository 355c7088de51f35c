// run_report.h - what is said of a run: verdicts, answers and numbers, of which pages are made.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(RunFacts run, ReadRun("runs/mine"));
//   const RunReport report = MakeReport(std::move(run));
//   std::fputs(ReportText(report).c_str(), stdout);
//
// There is one analysis; text, report.json and the page show the same.
#ifndef DTRAIN_REPORT_RUN_REPORT_H_
#define DTRAIN_REPORT_RUN_REPORT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/report/row_intervals.h"
#include "dtrain/report/run_facts.h"
#include "dtrain/report/statistics.h"
#include "dtrain/report/verdict.h"

namespace dtrain {

inline constexpr int kReportVersion = 1;

// A metric of evaluations, as it is shown.
struct ShownMetric {
  std::string key = {};   // "accuracy"; "" if no evaluation has a metric
  std::string name = {};  // "accuracy in %"
  double scale = 1.0;     // shown is the recorded value times this
  int decimals = 1;
  bool is_larger_better = true;
};

// A question that people ask of a run, and the answer.
struct Answer {
  std::string question = {};
  std::string text = {};
  std::string curve = {};  // the chart or section that shows it; "" for none
};

// Numbers that follow from the records.
struct RunNumbers {
  int ranks = 1;
  double step_ms = kNoNumber;  // median
  double step_ms_low = kNoNumber;
  double step_ms_high = kNoNumber;  // 95 % of the records lie between
  double data_share = kNoNumber;
  double comm_share = kNoNumber;
  double tokens_per_second = kNoNumber;  // over all training time
  int64_t trained_parameters = 0;        // whose gradients are exchanged; 0: not known
  double bytes_each_way = 0.0;           // exchanged by a rank in an update; 0: not known
  double checkpoint_seconds = 0.0;
  double checkpoints = 0.0;
  double evaluation_seconds = 0.0;
  double longest_pause = 0.0;  // the longest evaluation or checkpoint, in seconds
  double wall_seconds = 0.0;   // training and evaluations
  double warmup_updates = 0.0;
  bool rate_falls_to_zero = false;
  bool is_complete = false;  // it reached its limit
  std::string end_reason = {};
  std::string loss_key = {};  // of evaluations: nll, or what is nearest to it
  std::vector<int64_t> resumes = {};
  // Between the first record and the last, by the clock, and what of it no record is left of:
  // between the checkpoints from which the run went on and where it did.
  double clock_seconds = kNoNumber;
  double lost_seconds = kNoNumber;
  // The share of the host's processor time that other programs used.
  double others_share = kNoNumber;
  // Seconds of each rank by recorded::kPhaseNames, over all records; empty if not recorded.
  std::vector<std::array<double, recorded::kPhaseNames.size()>> phases = {};
  double phases_seconds = 0.0;  // training time that these are of
  // For JudgeNetwork(), JudgeData() and JudgeSlowRank().
  double common_wait_share = kNoNumber;
  int rank_of_data = 0;
  double slow_share = kNoNumber;
  int slow_rank = 0;
  double slow_same_share = 0.0;
  double update_share = kNoNumber;  // RateInput::update_share
  // The last value of the metric, as it is recorded; nothing without values per row.
  std::optional<Interval> score = {};
  // Standard errors of the difference between the last two evaluations.
  double score_difference_error = kNoNumber;
  double loss_difference_error = kNoNumber;
};

struct RunReport {
  RunFacts run = {};
  RunNumbers numbers = {};
  ShownMetric metric = {};
  std::vector<Verdict> verdicts = {};  // the worst first
  std::vector<Answer> answers = {};
  Settings defaults = {};  // of the program; empty: not known
  bool is_public = false;  // of ReportOptions; text, JSON and pages follow it
};

struct ReportOptions {
  // Seconds since 1970, to see how long a run has been silent; NaN: now.
  double now = kNoNumber;
  // Defaults of the program's settings, to show those that differ.
  Settings defaults = {};
  // Leaves out paths, names of hosts and users, command lines, and messages that may hold them.
  bool is_public = false;
};

RunReport MakeReport(RunFacts run, const ReportOptions& options = {});

// The numbers of the records that the verdicts are made of.
RunNumbers NumbersOf(const RunFacts& run);
ShownMetric MetricOf(const RunFacts& run);
// `options.now` is a number.
std::vector<Verdict> JudgeRun(const RunFacts& run, const RunNumbers& numbers,
                              const ShownMetric& metric, const ReportOptions& options);
std::vector<Answer> AnswersOf(const RunReport& report);

// The last evaluation's value as text: "31.5 BLEU", or "31.5 ± 1.8 BLEU" with the half width of
// its 95 % interval. "" if there is none.
std::string ScoreText(const RunReport& report);
// The same of the test set.
std::string TestText(const RunReport& report);
// The learning rate's course in words.
std::string LearningRateWords(const RunFacts& run, const RunNumbers& numbers);
// Settings that differ from their defaults; all where defaults are not known.
Settings ChangedSettings(const RunReport& report);
// Points of a metric of evaluations: x updates, y recorded values; only finite ones.
std::vector<CurvePoint> EvaluationCurve(const RunFacts& run, std::string_view key);

// For the terminal.
std::string ReportText(const RunReport& report);
// The content of report.json.
std::string ReportJson(const RunReport& report);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_RUN_REPORT_H_
