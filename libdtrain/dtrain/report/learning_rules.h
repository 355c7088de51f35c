// learning_rules.h - rules on what was learned: fully trained, overfitting, stable, clipped.
// SPDX-License-Identifier: Apache-2.0
//
// A rule is a function of numbers; its thresholds are in limits.h and its formula in
// docs/read-a-report.md. A rule that lacks a number says so, and guesses nothing.
#ifndef DTRAIN_REPORT_LEARNING_RULES_H_
#define DTRAIN_REPORT_LEARNING_RULES_H_

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "dtrain/report/statistics.h"
#include "dtrain/report/verdict.h"

namespace dtrain {

struct FinishedInput {
  std::string state = {};   // of STATUS; "" if it is missing
  std::string reason = {};  // why the run ended: "max_steps"
  std::string message = {};
  bool is_public = false;  // the message stays out
  int64_t updates = 0;
  double seconds = 0.0;
  double silent_seconds = std::numeric_limits<double>::quiet_NaN();  // since the heartbeat
  double period_seconds = 0.0;                                       // between records
  // The longest evaluation or checkpoint so far, during which there is no heartbeat.
  double longest_pause = 0.0;
};
Verdict JudgeEnd(const FinishedInput& input);

// A metric as texts name it.
struct MetricWords {
  std::string name = {};  // "BLEU", "points of accuracy"
  int decimals = 1;
};

struct TrainedInput {
  std::vector<CurvePoint> losses = {};   // x: target tokens, y: dev loss; by x
  std::vector<CurvePoint> metrics = {};  // the same with the metric; empty: the loss itself counts
  MetricWords metric = {};
  bool rate_falls_to_zero = false;
  bool is_complete = true;         // the run reached its limit
  bool is_noise_measured = false;  // false: noise is estimated from the curve
  double loss_noise = 0.0;         // standard deviation of an evaluation's noise
  double metric_noise = 0.0;       // standard error of a difference of two evaluations
  std::string longer = {};         // the setting that trains half as long again
};
Verdict JudgeTrained(const TrainedInput& input);

struct OverfitInput {
  // x: updates. Training sentences are those evaluated exactly as the dev set is, never the
  // training curve, which has dropout and smoothing.
  std::vector<CurvePoint> dev = {};
  std::vector<CurvePoint> training = {};  // empty: not recorded
  std::vector<CurvePoint> metric = {};    // a larger one is better
  double dev_noise = 0.0;                 // standard errors of a difference of two evaluations
  double training_noise = 0.0;
  bool has_patience = false;  // the program has the setting trainer.early_stop.patience
};
Verdict JudgeOverfitting(const OverfitInput& input);

struct StabilityInput {
  std::vector<int64_t> steps = {};
  std::vector<double> losses = {};
  double skipped = 0.0;
  int64_t updates = 0;
};
Verdict JudgeStability(const StabilityInput& input);

// The gradient norms of the records after warm-up; a clip_norm of 0 means none.
Verdict JudgeClipping(std::span<const double> norms, double clip_norm);

struct RateInput {
  double peak = 0.0;
  double last = 0.0;
  double warmup_share = 0.0;  // of the updates done
  bool is_complete = true;    // the run reached its limit
  // How far an update moves the weights of layers, as a share of their norm: the median after
  // warm-up. NaN if it is not recorded.
  double update_share = std::numeric_limits<double>::quiet_NaN();
};
Verdict JudgeRate(const RateInput& input);

struct PartInput {
  std::string metric = {};
  double evaluated = 0.0;     // sentences of an evaluation
  double whole = 0.0;         // sentences of the dev set
  std::string interval = {};  // "29.7 to 33.2"; "" if values per sentence are not recorded
};
// On how much of the dev set the score is, and how sure it is.
Verdict JudgeEvaluatedPart(const PartInput& input);

struct RestartsInput {
  std::vector<int64_t> steps = {};  // at which the run went on
  // By the clock: of the whole run, and lost or done again; NaN where records have no time.
  double seconds = std::numeric_limits<double>::quiet_NaN();
  double lost_seconds = std::numeric_limits<double>::quiet_NaN();
};
Verdict JudgeRestarts(const RestartsInput& input);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_LEARNING_RULES_H_
