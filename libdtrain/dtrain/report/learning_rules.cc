// learning_rules.cc - the end, the gain of longer training, overfitting, the evaluated part.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/learning_rules.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/report/limits.h"
#include "dtrain/report/number_text.h"

namespace dtrain {
namespace {

constexpr char kGoOn[] = "Run the same command again: it goes on from ckpt/last.";

std::string WholePercent(double share) { return absl::StrFormat("%.0f %%", 100.0 * share); }

// A gain in the metric.
struct MetricGain {
  double gain = 0.0;
  double low = 0.0;
  double high = 0.0;
  double per_loss = 0.0;
};

MetricGain InMetric(const ExpectedGain& loss, const TrainedInput& input) {
  const double widened = limits::kGainModel * std::abs(loss.gain);
  const double low = loss.low - widened;
  const double high = loss.high + widened;
  if (input.metrics.empty()) return {loss.gain, std::max(low, 0.0), std::max(high, 0.0), 1.0};
  std::vector<CurvePoint> pairs;
  for (size_t i = 0; i < input.losses.size() && i < input.metrics.size(); ++i) {
    pairs.push_back({input.losses[i].y, input.metrics[i].y});
  }
  const Slope slope = MetricPerLoss(pairs).value_or(Slope{});
  // Either interval may hold zero, so that the least product may be of any two ends.
  const auto [least, most] =
      std::minmax({low * slope.low, low * slope.high, high * slope.low, high * slope.high});
  return {loss.gain * slope.median, std::max(least, 0.0), std::max(most, 0.0), slope.median};
}

// From which falls of the loss the gain follows.
std::string BasisOfGain(const ExpectedGain& gain, const MetricGain& metric, double trusted,
                        const TrainedInput& input) {
  std::string basis = absl::StrFormat(
      "Dev loss fell by %.3f from %s to %s of the training and by %.3f from there to %s. Going on "
      "like that, the next half brings about %.3f",
      gain.first_fall, WholePercent(trusted * 4.0 / 9.0), WholePercent(trusted * 2.0 / 3.0),
      gain.second_fall, WholePercent(trusted), std::max(gain.gain, 0.0));
  if (!input.metrics.empty()) {
    absl::StrAppendFormat(&basis, "; a fall by 1 is worth %s %s", ShortNumber(metric.per_loss),
                          input.metric.name);
  }
  basis += ".";
  if (trusted < 1.0 && input.is_complete) {
    basis += " The flat end is left out: the rate falls to zero there.";
  }
  if (!input.is_noise_measured) {
    basis += " Values per sentence are not recorded: the noise is estimated from the curve.";
  }
  return basis;
}

std::string HowToTrainLonger(const TrainedInput& input) {
  if (!input.is_complete) return "Let it go on to its limit.";
  const std::string limit = input.longer.empty() ? "a larger limit" : input.longer;
  return input.rate_falls_to_zero
             ? "Start anew with " + limit +
                   ". Going on from here brings little: the rate has reached zero."
             : "Run the same command again with " + limit + ": it goes on from here.";
}

std::string ReasonOfFailure(const FinishedInput& input) {
  if (input.message.empty()) return "no reason is recorded";
  return input.is_public ? "the reason is in STATUS" : input.message;
}

}  // namespace

Verdict JudgeEnd(const FinishedInput& input) {
  Verdict verdict{.id = "finished", .number = Thousands(static_cast<double>(input.updates))};
  const std::string updates = CountOfThings(static_cast<double>(input.updates), "update");
  const std::string time = DurationText(input.seconds);
  const bool is_running = input.state == "running" || input.state == "preparing";
  const double patience =
      std::max<double>({limits::kSilence, limits::kSilentPeriods * input.period_seconds,
                        limits::kSilentPauses * input.longest_pause});
  if (input.state == "done") {
    verdict.title = "Finished";
    verdict.text = absl::StrCat(updates, " in ", time, ", as asked",
                                input.reason.empty() ? "" : " (" + input.reason + ")", ".");
  } else if (input.state == "running" && input.silent_seconds > patience) {
    verdict.level = VerdictLevel::kBad;
    verdict.title = "Ended without a word";
    verdict.text = "No sign of life for " + DurationText(input.silent_seconds) +
                   ": it was killed, or the machine is gone.";
    verdict.sure = Sureness::kLikely;
    verdict.change = kGoOn;
  } else if (input.state == "preparing" && input.silent_seconds > limits::kSilentPreparing) {
    CannotTell(
        "Cannot tell whether it still prepares",
        "It prepares data, with no sign of life for " + DurationText(input.silent_seconds) + ".",
        verdict);
  } else if (is_running) {
    verdict.level = VerdictLevel::kNote;
    verdict.title = "Still running";
    verdict.text = updates + " so far, " + time + ".";
  } else if (input.state == "failed") {
    verdict.level = VerdictLevel::kBad;
    verdict.title = "Failed";
    verdict.text = "After " + updates + ": " + ReasonOfFailure(input) + ".";
    verdict.change = std::string("Look at the reason. ") + kGoOn;
  } else if (input.state == "stopped") {
    verdict.level = VerdictLevel::kNote;
    verdict.title = "Stopped on request";
    verdict.text = "After " + updates + " in " + time + ".";
    verdict.change = kGoOn;
  } else {
    CannotTell("Cannot tell whether it finished",
               "STATUS is missing or damaged. There are records of " + updates + ".", verdict);
  }
  return verdict;
}

Verdict JudgeTrained(const TrainedInput& input) {
  Verdict verdict{.id = "trained", .curve = input.metrics.empty() ? "loss" : "metric"};
  const double trusted = input.rate_falls_to_zero ? 2.0 / 3.0 : 1.0;
  const std::optional<ExpectedGain> gain = ExtrapolateLoss(input.losses, input.loss_noise, trusted);
  if (!gain || !std::isfinite(gain->gain) || !std::isfinite(input.metric_noise)) {
    CannotTell("Cannot tell whether it is fully trained",
               absl::StrFormat("There are too few evaluations: at least 4 are needed, the first "
                               "within %s of the training.",
                               WholePercent(trusted * 4.0 / 9.0)),
               verdict);
    verdict.change = "Set trainer.eval_every to a tenth of the training.";
    return verdict;
  }
  const MetricGain metric = InMetric(*gain, input);
  const int decimals = input.metric.decimals;
  const auto number = [&](double value) { return FixedNumber(value, decimals); };
  const std::string range = number(metric.low) + " to " + number(metric.high);
  verdict.evidence = BasisOfGain(*gain, metric, trusted, input);
  verdict.sure = input.is_noise_measured ? Sureness::kLikely : Sureness::kHint;
  const double limit = limits::kGainSmall * input.metric_noise;
  if (metric.high < limit) {
    verdict.title = "Fully trained";
    verdict.text = absl::StrFormat(
        "Half as long again would bring %s %s, less than two evaluations differ by chance (%s).",
        number(metric.gain), input.metric.name, number(input.metric_noise));
    verdict.number = number(metric.gain);
    return verdict;
  }
  verdict.change = HowToTrainLonger(input);
  if (metric.low > limit) {
    verdict.level = VerdictLevel::kWarn;
    verdict.title = "Not fully trained";
    verdict.text =
        absl::StrFormat("Training half as long again would bring about %s %s (90 %% interval: %s).",
                        number(metric.gain), input.metric.name, range);
    verdict.number = "+" + number(metric.gain);
  } else {
    verdict.level = VerdictLevel::kNote;
    verdict.title = "Nearly fully trained";
    verdict.text = absl::StrFormat(
        "Half as long again might bring %s %s; two evaluations differ by %s by chance.", range,
        input.metric.name, number(input.metric_noise));
    verdict.number = range;
    verdict.sure = Sureness::kHint;
  }
  return verdict;
}

namespace {

// The value at exactly that update; NaN if there is none.
double ValueAt(std::span<const CurvePoint> points, double x) {
  for (const CurvePoint& point : points) {
    if (point.x == x) return point.y;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void JudgeRisen(const OverfitInput& input, const CurvePoint& lowest, double rise,
                Verdict& verdict) {
  const std::string since = Thousands(lowest.x);
  const double fall =
      ValueAt(input.training, lowest.x) - ValueAt(input.training, input.dev.back().x);
  const bool is_known = std::isfinite(fall);
  const bool falls = is_known && fall > limits::kRise * input.training_noise;
  if (is_known && !falls) {
    verdict.level = VerdictLevel::kWarn;
    verdict.title = "The loss rises everywhere";
    verdict.text = absl::StrFormat(
        "Dev loss rose by %.3f since update %s, and the loss on training sentences did not fall.",
        rise, since);
    verdict.sure = Sureness::kLikely;
    verdict.evidence = "This is not overfitting: the training became unstable.";
    verdict.change = "Lower optimizer.learning_rate or lengthen the warm-up.";
    return;
  }
  const auto best =
      std::max_element(input.metric.begin(), input.metric.end(),
                       [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; });
  const bool still_improves = best != input.metric.end() && best->x > lowest.x;
  verdict.level = still_improves ? VerdictLevel::kNote : VerdictLevel::kBad;
  verdict.title = still_improves ? "Overconfident" : "Overfitting";
  verdict.text = absl::StrFormat("Dev loss has risen by %.3f since update %s%s.", rise, since,
                                 falls ? " while the loss on training sentences fell" : "");
  if (still_improves) {
    verdict.text +=
        " The metric went on rising, so the model becomes overconfident rather than wrong: keep "
        "the best by metric.";
  }
  verdict.sure = falls ? Sureness::kMeasured : Sureness::kLikely;
  if (!falls) verdict.evidence = "The loss on training sentences is not recorded.";
  verdict.change = "Use the checkpoint of update " + since +
                   " or of the best metric (ckpt/best-*). More dropout, more data, fewer passes" +
                   (input.has_patience ? ", or trainer.early_stop.patience." : ".");
}

}  // namespace

Verdict JudgeOverfitting(const OverfitInput& input) {
  Verdict verdict{.id = "overfit", .curve = "loss"};
  if (input.dev.size() < 2 || !std::isfinite(input.dev_noise)) {
    CannotTell("Cannot tell whether it overfits",
               input.dev.size() < 2 ? "There is no second evaluation."
                                    : "There are too few evaluations to know their noise.",
               verdict);
    verdict.change = "Set trainer.eval_every to a tenth of the training.";
    return verdict;
  }
  const CurvePoint lowest =
      *std::min_element(input.dev.begin(), input.dev.end(),
                        [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; });
  const CurvePoint& last = input.dev.back();
  const double rise = last.y - lowest.y;
  verdict.number = absl::StrFormat("%+.3f", rise);
  if (rise > limits::kRise * input.dev_noise) {
    JudgeRisen(input, lowest, rise, verdict);
    return verdict;
  }
  verdict.title = "No overfitting";
  verdict.text =
      lowest.x == last.x
          ? absl::StrFormat("The dev loss was lowest at the last evaluation (%.3f).", lowest.y)
          : absl::StrFormat(
                "The dev loss was lowest at update %s (%.3f) and has risen "
                "by less than its noise since.",
                Thousands(lowest.x), lowest.y);
  const double on_training = ValueAt(input.training, last.x);
  if (!std::isfinite(on_training)) {
    verdict.sure = Sureness::kLikely;
    verdict.evidence =
        "The loss on training sentences is not recorded, so the gap to them is not known. The "
        "training curve has dropout and smoothing, and cannot be compared.";
    return verdict;
  }
  verdict.number = absl::StrFormat("gap %.2f", last.y - on_training);
  absl::StrAppendFormat(&verdict.text,
                        " Loss on training sentences %.2f, on dev %.2f: a gap of %.2f.",
                        on_training, last.y, last.y - on_training);
  verdict.evidence =
      "Both are measured alike, without dropout and label smoothing; the training curve is not "
      "comparable.";
  return verdict;
}

Verdict JudgeEvaluatedPart(const PartInput& input) {
  Verdict verdict{.id = "noise", .curve = "metric"};
  if (!(input.evaluated > 0.0)) {
    CannotTell("How sure the score is",
               "Not recorded: values per sentence or row, of which an interval is made.", verdict);
    return verdict;
  }
  const bool is_part = input.whole > input.evaluated;
  verdict.number = Thousands(input.evaluated);
  verdict.evidence =
      input.interval.empty()
          ? "Values per sentence are not recorded, or the metric is no sum of them, so there is no "
            "interval."
          : "With other sentences of the same kind it would be " + input.interval +
                " (95 % of the draws of sentences with replacement).";
  if (is_part) {
    verdict.level = VerdictLevel::kNote;
    verdict.title = "The dev score is of a part of the dev set";
    verdict.text =
        absl::StrFormat("%s is of %s of %s sentences, which may not be like the rest.",
                        input.metric, Thousands(input.evaluated), Thousands(input.whole));
    verdict.number += " of " + Thousands(input.whole);
    verdict.change =
        "Quote the score of the whole set: dtrain eval, or trainer.eval_max_sentences=0.";
  } else if (input.evaluated < limits::kSmallDev) {
    verdict.level = VerdictLevel::kNote;
    verdict.title = "The dev set is small";
    verdict.text =
        absl::StrFormat("%s is of only %s sentences.", input.metric, Thousands(input.evaluated));
    verdict.change = "Take small differences between runs for chance, or take a larger dev set.";
  } else {
    verdict.title = "The dev score is of the whole dev set";
    verdict.text =
        absl::StrFormat("%s is of all %s sentences.", input.metric, Thousands(input.evaluated));
  }
  return verdict;
}

Verdict JudgeRestarts(const RestartsInput& input) {
  const std::vector<int64_t>& steps = input.steps;
  Verdict verdict{.id = "restarts", .curve = "loss"};
  verdict.number = absl::StrCat(steps.size());
  if (steps.empty()) {
    verdict.title = "No restart";
    verdict.text = "It ran from its first update to its last in one go.";
    return verdict;
  }
  constexpr size_t kMostNamed = 6;
  verdict.text = absl::StrFormat("It went on %s from a checkpoint: at update ",
                                 CountOfThings(static_cast<double>(steps.size()), "time"));
  for (size_t i = 0; i < std::min(steps.size(), kMostNamed); ++i) {
    verdict.text += (i > 0 ? "; " : "") + Thousands(static_cast<double>(steps[i]));
  }
  verdict.text += steps.size() > kMostNamed ? "; ..." : ".";
  verdict.title = "Restarts left no trace";
  const double share = input.lost_seconds / input.seconds;
  if (!std::isfinite(share)) {
    verdict.evidence = "The time that was lost between is not recorded.";
    return verdict;
  }
  absl::StrAppendFormat(&verdict.text, " %s of %s by the clock were lost or done again.",
                        DurationText(input.lost_seconds), DurationText(input.seconds));
  if (share > limits::kLost) {
    verdict.level = VerdictLevel::kNote;
    verdict.title = "Restarts cost time";
    verdict.number = PercentText(share);
    verdict.change = "A smaller trainer.checkpoint_every loses less; see why the run ended.";
  }
  return verdict;
}

}  // namespace dtrain
