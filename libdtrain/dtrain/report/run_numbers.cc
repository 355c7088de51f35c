// run_numbers.cc - means, medians and limits of a run, from its records.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "dtrain/report/run_report.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/runs/record_names.h"

namespace dtrain {
namespace {

// The mean of a share, weighted by the updates that each record is of.
double MeanShare(const std::vector<StepFacts>& steps, double StepFacts::*share) {
  double sum = 0.0;
  double updates = 0.0;
  int64_t before = 0;
  for (const StepFacts& step : steps) {
    const auto weight = static_cast<double>(step.step - before);
    before = step.step;
    if (!std::isfinite(step.*share)) continue;
    sum += weight * step.*share;
    updates += weight;
  }
  return updates > 0.0 ? sum / updates : kNoNumber;
}

// "...: 21.9 MiB in 0.25 s" -> 0.25.
double SecondsOfCheckpoint(std::string_view text) {
  const size_t place = text.rfind(" in ");
  if (place == std::string_view::npos || !text.ends_with(" s")) return 0.0;
  text = text.substr(place + 4, text.size() - place - 6);
  double seconds = 0.0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), seconds).ptr;
  return end == text.data() + text.size() && seconds >= 0.0 ? seconds : 0.0;
}

void SetTimes(const RunFacts& run, RunNumbers& numbers) {
  std::vector<double> times;
  for (const StepFacts& step : run.steps) {
    if (std::isfinite(step.step_ms)) times.push_back(step.step_ms);
  }
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    const size_t tail = times.size() / 40;
    numbers.step_ms_low = times[tail];
    numbers.step_ms_high = times[times.size() - 1 - tail];
    numbers.step_ms = Median(std::move(times));
  }
  for (const EvaluationFacts& evaluation : run.evaluations) {
    if (!(evaluation.seconds > 0.0)) continue;
    numbers.evaluation_seconds += evaluation.seconds;
    numbers.longest_pause = std::max(numbers.longest_pause, evaluation.seconds);
  }
  const double seconds = std::isfinite(run.seconds()) ? run.seconds() : 0.0;
  numbers.wall_seconds = seconds + numbers.evaluation_seconds;
  if (seconds > 0.0) numbers.tokens_per_second = run.steps.back().target_tokens / seconds;
}

void SetEvents(const RunFacts& run, RunNumbers& numbers) {
  for (const EventFacts& event : run.events) {
    if (event.kind == recorded::kCheckpointEvent) {
      ++numbers.checkpoints;
      const double seconds = SecondsOfCheckpoint(event.text);
      numbers.checkpoint_seconds += seconds;
      numbers.longest_pause = std::max(numbers.longest_pause, seconds);
    } else if (event.kind == recorded::kResumeEvent && event.text.starts_with(recorded::kGoingOn)) {
      numbers.resumes.push_back(event.step);
      // A run that was complete may go on with a larger limit.
      numbers.is_complete = false;
      numbers.end_reason.clear();
    } else if (event.kind == recorded::kStopEvent) {
      numbers.is_complete = event.text.starts_with(recorded::kComplete);
      numbers.end_reason = numbers.is_complete
                               ? event.text.substr(std::string_view(recorded::kComplete).size())
                               : event.text;
    }
  }
}

// Times by the clock. A run that went on has records before and after each pause.
void SetClock(const RunFacts& run, RunNumbers& numbers) {
  double first = kNoNumber;
  double last = kNoNumber;
  const auto include = [&](double time) {
    if (!std::isfinite(time)) return;
    if (!(first <= time)) first = time;
    if (!(last >= time)) last = time;
  };
  for (const StepFacts& step : run.steps) include(step.time);
  for (const EvaluationFacts& evaluation : run.evaluations) include(evaluation.time);
  for (const EventFacts& event : run.events) include(event.time);
  numbers.clock_seconds = last - first;
  for (const EventFacts& event : run.events) {
    const bool goes_on =
        event.kind == recorded::kResumeEvent && event.text.starts_with(recorded::kGoingOn);
    if (!goes_on || !std::isfinite(event.time)) continue;
    double before = kNoNumber;  // the last record that is left of the process before
    for (const StepFacts& step : run.steps) {
      if (step.step > event.step) break;
      if (step.time <= event.time) before = step.time;
    }
    if (!std::isfinite(before)) continue;
    if (!std::isfinite(numbers.lost_seconds)) numbers.lost_seconds = 0.0;
    numbers.lost_seconds += event.time - before;
  }
}

// What of the host's processor time its ranks did not use. A rank's sum begins anew with its
// process, so that the interval of a restart does not count.
double OthersShare(const std::vector<HostFacts>& host) {
  double others = 0.0;
  double total = 0.0;
  for (size_t i = 1; i < host.size(); ++i) {
    double ranks = 0.0;
    for (const HostFacts::Rank& rank : host[i].ranks) {
      for (const HostFacts::Rank& before : host[i - 1].ranks) {
        if (before.rank == rank.rank) ranks += rank.cpu - before.cpu;
      }
    }
    const double all = host[i].cpu_total - host[i - 1].cpu_total;
    const double busy = host[i].cpu_busy - host[i - 1].cpu_busy;
    if (!(ranks > 0.0) || !(all > 0.0) || !(busy >= 0.0)) continue;
    others += std::max(0.0, busy - ranks);
    total += all;
  }
  return total > 0.0 ? others / total : kNoNumber;
}

// Updates of warm-up: those before the rate is next to its peak.
double WarmupUpdates(const RunFacts& run) {
  const double set = run.Number("optimizer.warmup_steps");
  if (set > 0.0) return set;
  double peak = 0.0;
  for (const StepFacts& step : run.steps) {
    if (step.learning_rate > peak) peak = step.learning_rate;
  }
  // The first record is of several updates: a rate that begins at its peak has no warm-up.
  if (run.steps.empty() || run.steps.front().learning_rate >= 0.98 * peak) return 0.0;
  for (const StepFacts& step : run.steps) {
    if (step.learning_rate >= 0.98 * peak) return static_cast<double>(step.step);
  }
  return 0.0;
}

bool FallsToZero(const RunFacts& run) {
  constexpr std::array kFalling = {"linear",           "cosine",           "polynomial",
                                   "polynomial_total", "linear_to_budget", "warmup_stable_decay"};
  const std::string schedule = run.Setting("optimizer.schedule");
  return std::find(kFalling.begin(), kFalling.end(), schedule) != kFalling.end();
}

// Parameters that have gradients; 0 if that is not known.
int64_t ParametersWithGradients(const RunFacts& run) {
  if (run.checkpoint.trained_parameters > 0) return run.checkpoint.trained_parameters;
  // Adapters train a small part of the model, and without the optimizer's state nothing says which.
  const bool has_adapters = run.Number("model.lora.rank") > 0.0;
  return has_adapters ? 0 : run.checkpoint.parameter_count();
}

// What a rank sends, and receives, to sum the gradients of an update.
double BytesEachWay(const RunFacts& run, int ranks, int64_t parameters) {
  const bool is_other =
      run.Number("trainer.power_sgd_rank") > 0.0 || run.Number("trainer.sync_every") > 1.0;
  if (ranks < 2 || is_other) return 0.0;
  const double bytes = run.Setting("trainer.wire_precision").ends_with("16") ? 2.0 : 4.0;
  return 2.0 * (ranks - 1) / ranks * bytes * static_cast<double>(parameters);
}

// Scores of 0 to 100. Values do not tell: a BLEU may be below 1 all the time.
bool IsUpTo100(std::string_view key, std::string_view program) {
  return key == "bleu" || key == "bleu_tf" || key == "chrf" || key == "exact_match" ||
         (key == "f1" && program == "bert_squad");
}

// Scores of 0 to 1, or of -1 to 1, that are shown in percent.
bool IsShare(std::string_view key, std::string_view program) {
  constexpr std::array kShares = {"f1",     "auc",      "macro_f1", "precision",
                                  "recall", "matthews", "pearson",  "spearman"};
  return !IsUpTo100(key, program) &&
         (key.ends_with("accuracy") ||
          std::find(kShares.begin(), kShares.end(), key) != kShares.end());
}

// Places in recorded::kPhaseNames.
enum PhaseIndex : size_t { kData = 1, kForward = 2, kBackward = 3, kExchange = 4, kUpdate = 5 };

// What the slowest rank works beyond the others in one record, as a share of its work.
double LostToSlowest(const RankFacts& record, size_t& slowest) {
  std::vector<double> work;
  for (const auto& phases : record.ranks) {
    work.push_back(phases[kForward] + phases[kBackward] + phases[kUpdate]);
  }
  slowest = static_cast<size_t>(std::max_element(work.begin(), work.end()) - work.begin());
  const double most = work[slowest];
  work.erase(work.begin() + static_cast<int64_t>(slowest));
  return most > 0.0 ? (most - Median(std::move(work))) / most : kNoNumber;
}

void SetSlowRank(const RunFacts& run, RunNumbers& numbers) {
  std::vector<double> lost;
  std::vector<double> times(numbers.phases.size());
  for (const RankFacts& record : run.phases) {
    if (record.ranks.size() != numbers.phases.size() || record.ranks.size() < 2) continue;
    size_t slowest = 0;
    const double share = LostToSlowest(record, slowest);
    if (!std::isfinite(share)) continue;
    lost.push_back(share);
    ++times[slowest];
  }
  if (lost.empty()) return;
  const auto most = std::max_element(times.begin(), times.end());
  numbers.slow_rank = static_cast<int>(most - times.begin());
  numbers.slow_same_share = *most / static_cast<double>(lost.size());
  numbers.slow_share = Median(std::move(lost));
}

// The times of all ranks. Records before a restart with another number of ranks do not count.
void SetPhases(const RunFacts& run, RunNumbers& numbers) {
  if (run.phases.empty()) return;
  numbers.phases.resize(run.phases.back().ranks.size());
  double common = 0.0;
  for (const RankFacts& record : run.phases) {
    if (record.ranks.size() != numbers.phases.size()) continue;
    numbers.phases_seconds += record.seconds;
    double least = record.ranks.front()[kExchange];
    for (size_t rank = 0; rank < record.ranks.size(); ++rank) {
      least = std::min(least, record.ranks[rank][kExchange]);
      for (size_t i = 0; i < recorded::kPhaseNames.size(); ++i) {
        numbers.phases[rank][i] += record.ranks[rank][i];
      }
    }
    common += least;
  }
  if (!(numbers.phases_seconds > 0.0)) return;
  numbers.common_wait_share = common / numbers.phases_seconds;
  // With the small sums that ranks exchange besides, as the waits of the others are.
  numbers.comm_share = numbers.phases.front()[kExchange] / numbers.phases_seconds;
  for (size_t rank = 0; rank < numbers.phases.size(); ++rank) {
    const double share = numbers.phases[rank][kData] / numbers.phases_seconds;
    if (rank > 0 && !(share > numbers.data_share)) continue;
    numbers.data_share = share;
    numbers.rank_of_data = static_cast<int>(rank);
  }
  SetSlowRank(run, numbers);
}

// How far updates after warm-up move the weights of layers. Embeddings do not count: most of their
// rows do not move at all.
double UpdateShare(const RunFacts& run, double warmup_updates) {
  std::vector<double> records;
  for (const NormFacts& record : run.norms) {
    if (static_cast<double>(record.step) <= warmup_updates) continue;
    std::vector<double> layers;
    for (const NormFacts::Group& group : record.groups) {
      const bool is_of_layer =
          group.name.ends_with(".attention") || group.name.ends_with(".feed_forward");
      if (is_of_layer && std::isfinite(group.update_share)) layers.push_back(group.update_share);
    }
    if (!layers.empty()) records.push_back(Median(std::move(layers)));
  }
  return Median(std::move(records));
}

void SetIntervals(const RunFacts& run, RunNumbers& numbers) {
  if (!run.last_rows) return;
  const std::string key = MetricOf(run).key;
  numbers.score = IntervalOf(*run.last_rows, key);
  if (!run.previous_rows || run.previous_rows->step >= run.last_rows->step) return;
  const auto error = [&](const std::string& metric) {
    const std::optional<Interval> difference =
        DifferenceOf(*run.last_rows, *run.previous_rows, metric);
    return difference ? difference->error : kNoNumber;
  };
  numbers.score_difference_error = error(key);
  numbers.loss_difference_error = error(numbers.loss_key);
}

}  // namespace

RunNumbers NumbersOf(const RunFacts& run) {
  RunNumbers numbers;
  const std::string ranks = run.Environment("ranks");
  std::from_chars(ranks.data(), ranks.data() + ranks.size(), numbers.ranks);
  numbers.ranks = std::clamp(numbers.ranks, 1, 1'000'000);
  SetTimes(run, numbers);
  SetEvents(run, numbers);
  SetClock(run, numbers);
  numbers.others_share = OthersShare(run.host);
  numbers.data_share = MeanShare(run.steps, &StepFacts::data_share);
  numbers.comm_share = MeanShare(run.steps, &StepFacts::comm_share);
  SetPhases(run, numbers);
  numbers.warmup_updates = WarmupUpdates(run);
  numbers.update_share = UpdateShare(run, numbers.warmup_updates);
  numbers.rate_falls_to_zero = FallsToZero(run);
  numbers.trained_parameters = ParametersWithGradients(run);
  numbers.bytes_each_way = BytesEachWay(run, numbers.ranks, numbers.trained_parameters);
  for (const std::string_view key : {recorded::kNll, recorded::kLoss}) {
    if (numbers.loss_key.empty() && EvaluationCurve(run, key).size() > 0) numbers.loss_key = key;
  }
  SetIntervals(run, numbers);
  return numbers;
}

ShownMetric MetricOf(const RunFacts& run) {
  struct Known {
    std::string_view key;
    std::string_view name;
  };
  constexpr std::array kNames = {Known{"bleu", "BLEU"},
                                 Known{"chrf", "chrF2"},
                                 Known{"f1", "F1"},
                                 Known{"auc", "AUC"},
                                 Known{"exact_match", "exact match"},
                                 Known{"ppl", "perplexity"},
                                 Known{"nll", "loss"}};
  std::string key = run.Setting("trainer.best_metric");
  if (key.empty()) key = BestMetricOf(run.path);
  std::vector<CurvePoint> curve = EvaluationCurve(run, key);
  for (const std::string_view other : {recorded::kNll, recorded::kLoss}) {
    if (!curve.empty()) break;
    key = other;
    curve = EvaluationCurve(run, key);
  }
  if (curve.empty()) return {};
  ShownMetric metric{.key = key, .name = key};
  for (const Known& known : kNames) {
    if (known.key == key) metric.name = known.name;
  }
  for (const char* const part : {"loss", "nll", "ppl", "bits_per_byte"}) {
    if (key.find(part) == std::string::npos) continue;
    metric.is_larger_better = false;
    metric.decimals = 3;
    return metric;
  }
  if (IsShare(key, run.Environment("program"))) {
    metric.scale = 100.0;
    metric.name += " in %";
  } else if (!IsUpTo100(key, run.Environment("program"))) {
    metric.decimals = 3;
  }
  return metric;
}

std::vector<CurvePoint> EvaluationCurve(const RunFacts& run, std::string_view key) {
  std::vector<CurvePoint> curve;
  for (const EvaluationFacts& evaluation : run.evaluations) {
    const double value = evaluation.Metric(key);
    if (std::isfinite(value)) curve.push_back({static_cast<double>(evaluation.step), value});
  }
  return curve;
}

}  // namespace dtrain
