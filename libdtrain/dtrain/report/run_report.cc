// run_report.cc - joins facts, numbers, verdicts and answers.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/run_report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/unix_time.h"
#include "dtrain/report/number_text.h"

namespace dtrain {
namespace {

const Verdict* FindVerdict(const RunReport& report, std::string_view id) {
  for (const Verdict& verdict : report.verdicts) {
    if (verdict.id == id) return &verdict;
  }
  return nullptr;
}

std::string FileBytes(const std::vector<FileFacts>& files, std::string_view name) {
  for (const FileFacts& file : files) {
    if (file.name == name) return BytesText(static_cast<double>(file.bytes));
  }
  return "not there";
}

std::string TimeAnswer(const RunReport& report) {
  const RunNumbers& numbers = report.numbers;
  if (report.run.steps.empty()) return "Not recorded: there are no records of updates.";
  std::string text =
      absl::StrFormat("%s of training and %s of evaluation for %s",
                      DurationText(report.run.seconds()), DurationText(numbers.evaluation_seconds),
                      CountOfThings(static_cast<double>(report.run.updates()), "update"));
  const double epochs = report.run.steps.back().epoch;
  if (std::isfinite(epochs)) absl::StrAppendFormat(&text, ", %.1f passes over the data", epochs);
  text += ".";
  if (numbers.clock_seconds > 0.0) {
    absl::StrAppend(&text, " By the clock ", DurationText(numbers.clock_seconds),
                    " passed from the first record to the last.");
  }
  if (!numbers.end_reason.empty()) text += " It ended by " + numbers.end_reason + ".";
  return text;
}

std::string StepAnswer(const RunNumbers& numbers) {
  if (!std::isfinite(numbers.step_ms)) return "Not recorded: step_ms.";
  return absl::StrFormat(
      "%s ms (median); 95 %% of the records lie between %s and %s ms. %s target tokens a second.",
      ShortNumber(numbers.step_ms), ShortNumber(numbers.step_ms_low),
      ShortNumber(numbers.step_ms_high), ShortNumber(numbers.tokens_per_second));
}

std::string TrafficAnswer(const RunReport& report) {
  const RunNumbers& numbers = report.numbers;
  if (numbers.ranks < 2) return "One rank trained: nothing was exchanged.";
  if (!(numbers.bytes_each_way > 0.0) || !(numbers.step_ms > 0.0)) {
    return "Not known: the number of trained parameters is not, or ranks exchange only parts of "
           "gradients.";
  }
  const double rate = numbers.bytes_each_way / (numbers.step_ms / 1e3);
  return absl::StrFormat(
      "An update exchanges the gradients of %s trained parameters: 2 (N - 1) / N of their bytes, "
      "with N = "
      "%d ranks %s out and in per rank, on average %s MB/s = %s Gb/s. Rank 0 waited %s of the "
      "time.",
      Thousands(static_cast<double>(numbers.trained_parameters)), numbers.ranks,
      BytesText(numbers.bytes_each_way), FixedNumber(rate / 1e6, 1),
      FixedNumber(8.0 * rate / 1e9, 3), PercentText(numbers.comm_share));
}

std::string DataAnswer(const RunFacts& run) {
  if (!run.preparation) return "Not recorded for this program.";
  std::string text =
      absl::StrFormat("%s sentence pairs of %s read", Thousands(run.preparation->pairs_kept),
                      Thousands(run.preparation->pairs_read));
  if (const SetFacts* const train = run.preparation->Find("train")) {
    absl::StrAppendFormat(&text, "; %s source and %s target words", Thousands(train->source.words),
                          Thousands(train->target.words));
  }
  return text + "; " + FileBytes(run.data_files, "train.bin") + " prepared.";
}

std::string CheckpointAnswer(const RunReport& report) {
  const CheckpointFacts& checkpoint = report.run.checkpoint;
  if (checkpoint.name.empty()) return "There is none.";
  return absl::StrFormat(
      "%s in %s: weights %s, the optimizer's state %s, vocabulary, settings, checksums. %s were "
      "written in %s.",
      BytesText(static_cast<double>(checkpoint.bytes())),
      CountOfThings(static_cast<double>(checkpoint.files.size()), "file"),
      FileBytes(checkpoint.files, "model.safetensors"),
      FileBytes(checkpoint.files, "optimizer.safetensors"), Thousands(report.numbers.checkpoints),
      DurationText(report.numbers.checkpoint_seconds));
}

std::string ModelAnswer(const CheckpointFacts& checkpoint) {
  const auto count = static_cast<double>(checkpoint.parameter_count());
  if (count == 0.0) return "Not known: there is no checkpoint.";
  return ShortNumber(count) + " parameters, " + BytesText(4.0 * count) + " in fp32.";
}

// The course after warm-up.
std::string AfterWarmup(const RunFacts& run) {
  const std::string schedule = run.Setting("optimizer.schedule");
  if (schedule == "inverse_sqrt" || schedule == "transformer") {
    return "falls as one over the square root of the update: four times the updates, half the rate";
  }
  if (schedule == "linear") return "falls in a straight line to its end";
  if (schedule == "linear_to_budget") {
    return "falls in a straight line over trainer.max_time, so that it reaches its end when the "
           "time does";
  }
  if (schedule == "cosine") return "falls along half a cosine: slowly at first and at the end";
  if (schedule.starts_with("polynomial")) {
    return "falls as a power of the part of the run that is left";
  }
  if (schedule == "constant") return "stays";
  if (schedule == "warmup_stable_decay") return "stays, and falls in the last updates";
  return "has a course that is not known";
}

}  // namespace

RunReport MakeReport(RunFacts run, const ReportOptions& options) {
  RunReport report{
      .run = std::move(run), .defaults = options.defaults, .is_public = options.is_public};
  ReportOptions at = options;
  if (!std::isfinite(at.now)) at.now = SecondsSince1970();
  report.numbers = NumbersOf(report.run);
  // Why a run ended early is a sentence, which may hold a path; a limit is a name.
  if (options.is_public && !report.numbers.is_complete) report.numbers.end_reason.clear();
  report.metric = MetricOf(report.run);
  report.verdicts = JudgeRun(report.run, report.numbers, report.metric, at);
  report.answers = AnswersOf(report);
  return report;
}

std::string LearningRateWords(const RunFacts& run, const RunNumbers& numbers) {
  double peak = kNoNumber;
  double last = kNoNumber;
  for (const StepFacts& step : run.steps) {
    if (!std::isfinite(step.learning_rate)) continue;
    last = step.learning_rate;
    if (!(peak >= last)) peak = last;
  }
  if (!std::isfinite(peak)) return "Not recorded: the learning rate.";
  std::string text;
  if (numbers.warmup_updates > 0.0) {
    absl::StrAppendFormat(&text, "It rises in a straight line over the first %s updates, then it ",
                          Thousands(numbers.warmup_updates));
  } else {
    text = "It has no warm-up; it ";
  }
  absl::StrAppendFormat(&text, "%s (optimizer.schedule=%s). Highest %.3g, last %.3g.",
                        AfterWarmup(run), run.Setting("optimizer.schedule"), peak, last);
  return text;
}

std::string ScoreText(const RunReport& report) {
  const ShownMetric& metric = report.metric;
  const std::vector<CurvePoint> curve = EvaluationCurve(report.run, metric.key);
  if (curve.empty()) return "";
  std::string text = FixedNumber(curve.back().y * metric.scale, metric.decimals);
  if (const std::optional<Interval>& score = report.numbers.score) {
    text += " ± " + FixedNumber(HalfWidth(*score) * metric.scale, metric.decimals);
  }
  return text + " " + metric.name;
}

std::string TestText(const RunReport& report) {
  const ShownMetric& metric = report.metric;
  const double value = report.run.test ? report.run.test->Metric(metric.key) : kNoNumber;
  if (!std::isfinite(value)) return "";
  return FixedNumber(value * metric.scale, metric.decimals) + " " + metric.name;
}

std::vector<Answer> AnswersOf(const RunReport& report) {
  std::vector<Answer> answers;
  const auto add_verdict = [&](const char* question, std::string_view id) {
    const Verdict* const verdict = FindVerdict(report, id);
    if (verdict == nullptr) return;
    answers.push_back({question, verdict->title + ". " + verdict->text, verdict->curve});
  };
  answers.push_back({"How long did it take?", TimeAnswer(report), "time"});
  answers.push_back({"How long did an average step take?", StepAnswer(report.numbers), "step"});
  add_verdict("Is it fully trained? How can you tell?", "trained");
  add_verdict("Was it overfitting?", "overfit");
  add_verdict("Were the devices fully used?", "device");
  add_verdict("Was the network the bottleneck?", "network");
  answers.push_back(
      {"How does the time of a step go with the network traffic?", TrafficAnswer(report), "wait"});
  answers.push_back({"Explain the learning rate's curve.",
                     LearningRateWords(report.run, report.numbers), "rate"});
  answers.push_back({"How big is the training set?", DataAnswer(report.run), "data"});
  answers.push_back(
      {"How big is a checkpoint, and what is in it?", CheckpointAnswer(report), "data"});
  answers.push_back({"How large is the model?", ModelAnswer(report.run.checkpoint), "data"});
  const std::string score = ScoreText(report);
  const Verdict* const noise = FindVerdict(report, "noise");
  std::string how_good = score.empty() ? "There was no evaluation." : score + " on the dev set. ";
  if (!score.empty() && noise != nullptr) how_good += noise->text;
  const std::string test = TestText(report);
  if (!test.empty()) how_good += " On the test set " + test + ".";
  answers.push_back({"How good is it, and how sure is that?", how_good, "metric"});
  return answers;
}

Settings ChangedSettings(const RunReport& report) {
  if (report.defaults.empty()) return report.run.settings;
  Settings changed;
  for (const auto& [key, value] : report.run.settings) {
    bool is_default = false;
    for (const auto& [name, standard] : report.defaults) {
      is_default = is_default || (name == key && standard == value);
    }
    if (!is_default) changed.emplace_back(key, value);
  }
  return changed;
}

}  // namespace dtrain
