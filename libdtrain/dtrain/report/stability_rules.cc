// stability_rules.cc - spikes, divergence, skipped updates, clipping and the learning rate.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "dtrain/report/learning_rules.h"
#include "dtrain/report/limits.h"
#include "dtrain/report/number_text.h"

namespace dtrain {
namespace {

// The loss at the end beside the best before, both as medians of as many records.
struct LossEnd {
  double last = std::numeric_limits<double>::quiet_NaN();
  double best = std::numeric_limits<double>::quiet_NaN();
  double noise = 0.0;  // standard error of the difference of the two
  size_t records = 8;  // in each median
};

LossEnd EndOfLosses(const std::vector<double>& losses) {
  std::vector<double> finite;
  std::copy_if(losses.begin(), losses.end(), std::back_inserter(finite),
               [](double loss) { return std::isfinite(loss); });
  LossEnd end;
  end.records = std::max<size_t>(8, finite.size() / 20);
  if (finite.empty()) return end;
  const size_t records = std::min(end.records, finite.size());
  const auto window = [&](size_t begin) {
    const auto first = finite.begin() + static_cast<ptrdiff_t>(begin);
    return std::vector<double>(first, first + static_cast<ptrdiff_t>(records));
  };
  const size_t last_begin = finite.size() - records;
  size_t best_begin = last_begin;
  end.last = end.best = Median(window(last_begin));
  for (size_t i = 0; i + records <= finite.size(); i += records) {
    const double median = Median(window(i));
    if (median < end.best) {
      end.best = median;
      best_begin = i;
    }
  }
  std::vector<double> distances;
  for (const size_t begin : {last_begin, best_begin}) {
    const std::vector<double> values = window(begin);
    const double median = Median(values);
    for (const double value : values) distances.push_back(std::abs(value - median));
  }
  // A median's standard error is 1.2533 times that of a mean; the difference is of two.
  end.noise = 1.2533 * std::sqrt(2.0) * 1.4826 * Median(std::move(distances)) /
              std::sqrt(static_cast<double>(records));
  return end;
}

// The first place of each group of spikes: neighbours within 5 records are one.
std::vector<size_t> Groups(const std::vector<size_t>& places) {
  std::vector<size_t> groups;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || places[i] - places[i - 1] > 5) groups.push_back(places[i]);
  }
  return groups;
}

// Two digits as a setting takes them: "20", "0.35", without separators between thousands.
std::string SettingText(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1.0);
  return absl::StrFormat("%.6g", std::round(value / unit) * unit);
}

void JudgeBroken(const StabilityInput& input, const std::vector<size_t>& broken, const LossEnd& end,
                 Verdict& verdict) {
  const auto update = [&](size_t place) {
    return Thousands(static_cast<double>(input.steps[place]));
  };
  const bool recovered = broken.back() + end.records < input.losses.size() &&
                         end.last <= end.best * (1.0 + limits::kDiverged);
  verdict.level = recovered ? VerdictLevel::kWarn : VerdictLevel::kBad;
  verdict.title = recovered ? "The loss was not a number for a while" : "Training diverged";
  verdict.text = absl::StrFormat("%s without a finite loss, first at update %s%s.",
                                 CountOfThings(static_cast<double>(broken.size()), "record"),
                                 update(broken.front()), recovered ? "; it recovered" : "");
  verdict.number = Thousands(static_cast<double>(broken.size()));
  verdict.evidence = "Last at update " + update(broken.back()) + ".";
  verdict.change =
      recovered ? "Look at the data of these updates; bf16 instead of fp16; optimizer.clip_norm=1."
                : "Lower the learning rate, lengthen the warm-up, clip gradients "
                  "(optimizer.clip_norm=1).";
}

void JudgeSpikes(const StabilityInput& input, const std::vector<size_t>& groups, Verdict& verdict) {
  const auto count = static_cast<double>(groups.size());
  verdict.level = count < limits::kManySpikes ? VerdictLevel::kNote : VerdictLevel::kWarn;
  verdict.title = "Loss spikes";
  verdict.text = absl::StrFormat("%s the loss jumped and came back, first at update %s.",
                                 CountOfThings(count, "time"),
                                 Thousands(static_cast<double>(input.steps[groups.front()])));
  verdict.number = Thousands(count);
  verdict.change = "Look at the data of these updates; optimizer.clip_norm=1; a lower rate.";
}

}  // namespace

Verdict JudgeStability(const StabilityInput& input) {
  Verdict verdict{.id = "stable", .curve = "loss"};
  if (input.losses.empty()) {
    CannotTell("Cannot tell whether it was stable", "There are no records of updates.", verdict);
    return verdict;
  }
  std::vector<size_t> broken;
  for (size_t i = 0; i < input.losses.size(); ++i) {
    if (!std::isfinite(input.losses[i])) broken.push_back(i);
  }
  const std::vector<size_t> groups = Groups(FindSpikes(input.losses));
  const LossEnd end = EndOfLosses(input.losses);
  const double skipped = input.skipped / std::max(1.0, static_cast<double>(input.updates));
  verdict.evidence = absl::StrFormat(
      "A spike is more than %.0f robust deviations above the %.0f records before it.",
      limits::kSpikeDeviations.value, limits::kSpikeWindow.value);
  if (!broken.empty()) {
    JudgeBroken(input, broken, end, verdict);
  } else if (end.last > end.best * (1.0 + limits::kDiverged) &&
             end.last - end.best > limits::kDivergedDeviations * end.noise) {
    verdict.level = VerdictLevel::kBad;
    verdict.title = "Training diverged";
    verdict.text =
        absl::StrFormat("The loss ended at %.2f, after %.2f before.", end.last, end.best);
    verdict.number = absl::StrFormat("%.3g", end.last);
    verdict.change =
        "Lower the learning rate, lengthen the warm-up, clip gradients (optimizer.clip_norm=1).";
  } else if (skipped > limits::kSkipped) {
    verdict.level = VerdictLevel::kWarn;
    verdict.title = "Many skipped updates";
    verdict.text =
        absl::StrFormat("%s of %s updates had gradients that were infinite or no number.",
                        Thousands(input.skipped), Thousands(static_cast<double>(input.updates)));
    verdict.number = PercentText(skipped);
    verdict.change = "trainer.precision=bf16 instead of fp16; a lower learning rate.";
  } else if (!groups.empty()) {
    JudgeSpikes(input, groups, verdict);
  } else {
    verdict.title = "Stable";
    verdict.number = "0";
    verdict.text =
        input.skipped > 0.0
            ? absl::StrFormat(
                  "No loss spike. %s of %s updates were skipped, which is "
                  "normal for fp16.",
                  Thousands(input.skipped), Thousands(static_cast<double>(input.updates)))
            : "No loss spike, no skipped update.";
  }
  return verdict;
}

Verdict JudgeClipping(std::span<const double> norms, double clip_norm) {
  Verdict verdict{.id = "clip", .curve = "norm"};
  if (!(clip_norm > 0.0)) {
    verdict.title = "No clipping";
    verdict.text = "optimizer.clip_norm is off.";
    return verdict;
  }
  std::vector<double> finite;
  std::copy_if(norms.begin(), norms.end(), std::back_inserter(finite),
               [](double norm) { return std::isfinite(norm); });
  const auto records = static_cast<double>(finite.size());
  if (records < limits::kClipRecords) {
    CannotTell("Cannot tell how often gradients are clipped",
               "There are too few records after the warm-up.", verdict);
    return verdict;
  }
  const auto clipped = static_cast<double>(
      std::count_if(finite.begin(), finite.end(), [&](double norm) { return norm > clip_norm; }));
  const double share = clipped / records;
  const double median = Median(finite);
  verdict.number = PercentText(share);
  verdict.sure = records < limits::kClipMeasured ? Sureness::kLikely : Sureness::kMeasured;
  if (share > limits::kClippedOften) {
    verdict.level = share > limits::kClippedAlways ? VerdictLevel::kWarn : VerdictLevel::kNote;
    verdict.title = "Gradients are clipped in most updates";
    verdict.text = absl::StrFormat("%s of the recorded updates were above %g (median norm %s).",
                                   PercentText(share), clip_norm, ShortNumber(median));
    verdict.evidence =
        "Only the direction of the gradient is used then: clipping acts as a second learning rate.";
    verdict.change =
        "optimizer.clip_norm=" + SettingText(2.0 * median) + ", or a lower learning rate.";
  } else {
    verdict.title = "Clipping rarely acts";
    verdict.text = absl::StrFormat(
        "%s of the recorded updates after warm-up were above %g; the median norm is %s.",
        PercentText(share), clip_norm, ShortNumber(median));
  }
  return verdict;
}

Verdict JudgeRate(const RateInput& input) {
  Verdict verdict{.id = "rate", .curve = "rate"};
  if (!(input.peak > 0.0)) {
    CannotTell("Cannot judge the learning rate", "There are no records of it.", verdict);
    return verdict;
  }
  const double fell_to = input.last / input.peak;
  if (input.warmup_share > limits::kWarmupLong) {
    const std::string share = PercentText(std::min(input.warmup_share, 1.0));
    verdict.level = VerdictLevel::kNote;
    verdict.title = "The warm-up took long";
    verdict.text =
        absl::StrFormat("%s of the updates were warm-up; the rate got to %.2g.", share, input.peak);
    verdict.number = share;
    verdict.sure = Sureness::kLikely;
    verdict.evidence = "A tenth is usual.";
    verdict.change = "A smaller optimizer.warmup_steps, or a longer run.";
  } else if (!input.is_complete && fell_to > limits::kRateFell) {
    verdict.level = VerdictLevel::kNote;
    verdict.title = "Stopped before the rate fell";
    verdict.text = "The rate ended at " + PercentText(fell_to) + " of its peak.";
    verdict.number = PercentText(fell_to);
    verdict.sure = Sureness::kLikely;
    verdict.evidence = "The last part of a falling rate brings the largest gains.";
    verdict.change = "Let the run reach its limit, or set a schedule that ends sooner.";
  } else if (input.update_share > limits::kUpdateLarge ||
             input.update_share < limits::kUpdateSmall) {
    const bool is_high = input.update_share > limits::kUpdateLarge;
    verdict.level = is_high ? VerdictLevel::kWarn : VerdictLevel::kNote;
    verdict.title = is_high ? "The learning rate may be too high" : "The learning rate is low";
    verdict.text = absl::StrFormat(
        "An update moves the weights of a layer by %.1g of their norm (median after warm-up).",
        input.update_share);
    verdict.number = absl::StrFormat("%.1g", input.update_share);
    verdict.sure = Sureness::kHint;
    verdict.evidence = "About 0.001 is usual.";
    verdict.change = is_high ? "Try half of optimizer.learning_rate, or a longer warm-up."
                             : "Try twice optimizer.learning_rate.";
  } else {
    verdict.title = "Nothing against the learning rate";
    verdict.text = absl::StrFormat("Peak %.3g, end %.2g.", input.peak, input.last);
    verdict.number = absl::StrFormat("%.3g", input.peak);
    verdict.sure = Sureness::kHint;
    verdict.evidence = "How far an update moves the weights is not recorded.";
    if (std::isfinite(input.update_share)) {
      verdict.evidence = absl::StrFormat(
          "An update moves the weights of a layer by %.1g of their norm (median after warm-up); "
          "about 0.001 is usual.",
          input.update_share);
    }
  }
  return verdict;
}

}  // namespace dtrain
