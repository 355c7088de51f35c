// judge_run.cc - gives each rule its numbers from the records of a run.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/report/learning_rules.h"
#include "dtrain/report/number_text.h"
#include "dtrain/report/run_report.h"
#include "dtrain/report/speed_rules.h"
#include "dtrain/runs/record_names.h"

namespace dtrain {
namespace {

// The setting that makes the run half as long again: "trainer.max_steps=600". "" if it is not
// known.
std::string LongerLimit(const RunFacts& run, const RunNumbers& numbers) {
  const std::string key = "trainer." + (numbers.is_complete ? numbers.end_reason : "max_steps");
  const std::string text = run.Setting(key);
  double value = 0.0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value).ptr;
  if (!(value > 0.0)) return "";
  const std::string unit(end, text.data() + text.size());
  // Repeated factors of 1.5 of a small number are no whole ones.
  return absl::StrFormat("%s=%.0f%s", key, std::ceil(1.5 * value), unit);
}

// Not every program has every setting, and advice names only those that it has.
bool HasSetting(const RunFacts& run, std::string_view key) {
  return std::any_of(run.settings.begin(), run.settings.end(),
                     [&](const auto& setting) { return setting.first == key; });
}

// The evaluations against the target tokens that were seen by then.
std::vector<CurvePoint> AgainstTokens(const RunFacts& run, std::vector<CurvePoint> curve) {
  std::vector<CurvePoint> tokens;
  for (const StepFacts& step : run.steps) {
    tokens.push_back({static_cast<double>(step.step), step.target_tokens});
  }
  if (tokens.empty() || !(tokens.back().y > 0.0)) return curve;
  for (CurvePoint& point : curve) point.x = Interpolated(tokens, point.x);
  return curve;
}

std::vector<CurvePoint> Scaled(std::vector<CurvePoint> curve, double factor) {
  for (CurvePoint& point : curve) point.y *= factor;
  return curve;
}

// Early in a training a score may stand at zero while the loss falls: then only the loss tells
// anything. The points of both are of the same evaluations.
bool RisesAsLossFalls(const std::vector<CurvePoint>& losses,
                      const std::vector<CurvePoint>& scores) {
  std::vector<CurvePoint> pairs;
  for (size_t i = 0; i < losses.size(); ++i) pairs.push_back({losses[i].y, scores[i].y});
  const std::optional<Slope> slope = MetricPerLoss(pairs);
  return slope && slope->median > 0.0;
}

Verdict JudgeTrainedRun(const RunFacts& run, const RunNumbers& numbers, const ShownMetric& metric) {
  TrainedInput input{.metric = {.name = metric.name, .decimals = metric.decimals},
                     .rate_falls_to_zero = numbers.rate_falls_to_zero,
                     // Events may be damaged.
                     .is_complete = numbers.is_complete || run.status.state == "done",
                     .longer = LongerLimit(run, numbers)};
  // The two curves must have the same points.
  RunFacts common;
  for (const EvaluationFacts& evaluation : run.evaluations) {
    if (std::isfinite(evaluation.Metric(numbers.loss_key)) &&
        std::isfinite(evaluation.Metric(metric.key))) {
      common.evaluations.push_back(evaluation);
    }
  }
  input.losses = AgainstTokens(run, EvaluationCurve(common, numbers.loss_key));
  const std::vector<CurvePoint> scores = EvaluationCurve(common, metric.key);
  const double difference = std::sqrt(2.0);
  const bool counts_metric = metric.is_larger_better && RisesAsLossFalls(input.losses, scores);
  input.is_noise_measured = std::isfinite(numbers.loss_difference_error) &&
                            (!counts_metric || std::isfinite(numbers.score_difference_error));
  input.loss_noise = input.is_noise_measured ? numbers.loss_difference_error / difference
                                             : NoiseOfCurve(input.losses);
  if (counts_metric) {
    input.metrics = AgainstTokens(run, Scaled(scores, metric.scale));
    input.metric_noise = input.is_noise_measured ? numbers.score_difference_error * metric.scale
                                                 : difference * NoiseOfCurve(input.metrics);
  } else {
    input.metric = {.name = "less dev loss", .decimals = 3};
    input.metric_noise = difference * input.loss_noise;
  }
  return JudgeTrained(input);
}

Verdict JudgeOverfittingOfRun(const RunFacts& run, const RunNumbers& numbers,
                              const ShownMetric& metric) {
  OverfitInput input{.dev = EvaluationCurve(run, numbers.loss_key),
                     .has_patience = HasSetting(run, "trainer.early_stop.patience")};
  if (metric.is_larger_better) input.metric = EvaluationCurve(run, metric.key);
  input.training = EvaluationCurve(run, recorded::kTrainSamplePrefix + numbers.loss_key);
  const double difference = std::sqrt(2.0);
  const bool is_measured = std::isfinite(numbers.loss_difference_error);
  input.dev_noise =
      is_measured ? numbers.loss_difference_error : difference * NoiseOfCurve(input.dev);
  input.training_noise = difference * NoiseOfCurve(input.training);
  // Of a few evaluations the noise is not known; the sample is about as large as the dev set.
  if (!std::isfinite(input.training_noise)) input.training_noise = input.dev_noise;
  return JudgeOverfitting(input);
}

FinishedInput EndOfRun(const RunFacts& run, const RunNumbers& numbers,
                       const ReportOptions& options) {
  FinishedInput input{.state = run.status.state,
                      .reason = numbers.end_reason,
                      .message = run.status.message,
                      .is_public = options.is_public,
                      .updates = run.updates(),
                      .seconds = std::isfinite(run.seconds()) ? run.seconds() : 0.0,
                      .silent_seconds = options.now - run.status.heartbeat,
                      .longest_pause = numbers.longest_pause};
  const double every = run.Number("trainer.log_every");
  if (std::isfinite(every * numbers.step_ms)) input.period_seconds = every * numbers.step_ms / 1e3;
  return input;
}

Verdict JudgeRateOfRun(const RunFacts& run, const RunNumbers& numbers) {
  RateInput input{.is_complete = numbers.is_complete || !numbers.rate_falls_to_zero};
  for (const StepFacts& step : run.steps) {
    if (step.learning_rate > input.peak) input.peak = step.learning_rate;
    if (std::isfinite(step.learning_rate)) input.last = step.learning_rate;
  }
  input.update_share = numbers.update_share;
  input.warmup_share = numbers.warmup_updates / std::max(1.0, static_cast<double>(run.updates()));
  // A run that goes on will fall yet.
  if (run.status.state == "running" || run.status.state == "preparing") input.is_complete = true;
  return JudgeRate(input);
}

StabilityInput LossesOf(const RunFacts& run) {
  StabilityInput input{.updates = run.updates()};
  for (const StepFacts& step : run.steps) {
    input.steps.push_back(step.step);
    input.losses.push_back(step.loss);
    if (step.skipped > 0.0) input.skipped = step.skipped;
  }
  return input;
}

std::vector<double> NormsAfterWarmup(const RunFacts& run, const RunNumbers& numbers) {
  std::vector<double> norms;
  for (const StepFacts& step : run.steps) {
    if (static_cast<double>(step.step) > numbers.warmup_updates) {
      norms.push_back(step.gradient_norm);
    }
  }
  return norms;
}

PartInput EvaluatedPart(const RunFacts& run, const RunNumbers& numbers, const ShownMetric& metric) {
  const SetFacts* const dev = run.preparation ? run.preparation->Find("dev") : nullptr;
  if ((dev == nullptr && !run.last_rows) || run.evaluations.empty()) return {};
  const auto number = [&](double value) {
    return FixedNumber(value * metric.scale, metric.decimals);
  };
  PartInput input{.metric = number(EvaluationCurve(run, metric.key).back().y) + " " + metric.name};
  if (numbers.score) {
    input.interval = number(numbers.score->low) + " to " + number(numbers.score->high);
  }
  if (run.last_rows) input.evaluated = static_cast<double>(run.last_rows->rows.size());
  input.whole = input.evaluated;
  if (dev == nullptr) return input;
  const double most = run.Number("trainer.eval_max_sentences");
  input.evaluated = most > 0.0 ? std::min(most, dev->pairs) : dev->pairs;
  input.whole = dev->pairs;
  return input;
}

bool IsOnCpu(const RunFacts& run) {
  return run.Environment("device").find("cpu") != std::string::npos;
}

// Rules of which no record is made.
void AddNotRecorded(const RunFacts& run, std::vector<Verdict>& verdicts) {
  verdicts.push_back(NotRecorded("device", "Use of the processors",
                                 "the peak of this device, and the time of forward and backward"));
  if (!IsOnCpu(run)) {
    verdicts.push_back(NotRecorded("throttle", "Clocks of the GPUs", "temperature and clocks"));
    verdicts.push_back(NotRecorded("memory", "Memory of the GPUs", "memory in use"));
  }
}

}  // namespace

std::vector<Verdict> JudgeRun(const RunFacts& run, const RunNumbers& numbers,
                              const ShownMetric& metric, const ReportOptions& options) {
  std::vector<Verdict> verdicts = {
      JudgeEnd(EndOfRun(run, numbers, options)),
      JudgeTrainedRun(run, numbers, metric),
      JudgeOverfittingOfRun(run, numbers, metric),
      metric.key.empty() ? JudgeEvaluatedPart({})
                         : JudgeEvaluatedPart(EvaluatedPart(run, numbers, metric)),
      JudgeStability(LossesOf(run)),
      JudgeClipping(NormsAfterWarmup(run, numbers), run.Number("optimizer.clip_norm")),
      JudgeRateOfRun(run, numbers),
      JudgeData(numbers.data_share, numbers.rank_of_data),
      JudgeNetwork({.ranks = numbers.ranks,
                    .share = numbers.comm_share,
                    .common_share = numbers.common_wait_share,
                    .step_seconds = numbers.step_ms / 1e3,
                    .bytes_each_way = numbers.bytes_each_way,
                    .is_bf16_wire = run.Setting("trainer.wire_precision").ends_with("16")}),
      JudgeSlowRank({.ranks = numbers.ranks,
                     .is_on_gpu = !IsOnCpu(run),
                     .lost_share = numbers.slow_share,
                     .rank = numbers.slow_rank,
                     .same_share = numbers.slow_same_share}),
      JudgeCheckpoints({numbers.checkpoint_seconds, numbers.wall_seconds,
                        static_cast<int64_t>(numbers.checkpoints)}),
      JudgeEvaluations({.seconds = numbers.evaluation_seconds,
                        .wall_seconds = numbers.wall_seconds,
                        .count = static_cast<int64_t>(run.evaluations.size()),
                        .can_shorten = HasSetting(run, "trainer.eval_max_sentences")}),
      JudgeOthers(numbers.others_share),
      JudgeRestarts({.steps = numbers.resumes,
                     .seconds = numbers.clock_seconds,
                     .lost_seconds = numbers.lost_seconds})};
  if (run.preparation) {
    verdicts.push_back(JudgePreparation(*run.preparation, run.Number("data.max_length")));
  }
  AddNotRecorded(run, verdicts);
  std::stable_sort(verdicts.begin(), verdicts.end(),
                   [](const Verdict& a, const Verdict& b) { return a.level < b.level; });
  return verdicts;
}

}  // namespace dtrain
