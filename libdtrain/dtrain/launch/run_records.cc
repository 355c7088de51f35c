// run_records.cc - records as JSON lines, and the same numbers as curves of TensorBoard.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/run_records.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/unix_time.h"
#include "dtrain/runs/record_names.h"
#include "dtrain/runs/row_values.h"

namespace dtrain {
namespace {

// The points refer to the names in `tags`.
std::vector<ScalarPoint> PointsOf(const std::vector<std::pair<std::string, double>>& tags) {
  std::vector<ScalarPoint> points;
  for (const auto& [tag, value] : tags) points.push_back({tag, value});
  return points;
}

std::string SamplesAsMarkdown(const std::vector<EvaluationSample>& samples) {
  std::string markdown = "| source | reference | hypothesis |\n|---|---|---|\n";
  for (const EvaluationSample& sample : samples) {
    absl::StrAppend(&markdown, "| ", sample.source, " | ", sample.reference, " | ",
                    sample.hypothesis, " |\n");
  }
  return markdown;
}

}  // namespace

Status RunRecords::WriteStep(const StepRecord& record, bool has_perplexity) {
  DT_RETURN_IF_ERROR(metrics_.steps.Write(
      JsonRecord()
          .Set(recorded::kStep, record.step)
          .Set(recorded::kEpoch, record.epoch)
          .Set(recorded::kLoss, record.loss)
          .Set(recorded::kNll, record.nll)
          .Set(recorded::kLearningRate, record.learning_rate)
          .Set(recorded::kGradientNorm, record.gradient_norm)
          .Set(recorded::kSkipped, record.skipped)
          .Set(recorded::kTargetTokens, record.target_tokens)
          .Set(recorded::kStepMs, 1e3 * record.step_seconds)
          .Set(recorded::kDataShare, record.data_share)
          .Set(recorded::kCommShare, record.comm_share)
          .Set(recorded::kTargetTokensPerSecond, record.target_tokens_per_second)
          .Set(recorded::kSourceTokensPerSecond, record.source_tokens_per_second)
          .Set(recorded::kSeconds, record.seconds)
          .Set(recorded::kTime, SecondsSince1970())));
  DT_RETURN_IF_ERROR(AddPhases(record));
  DT_RETURN_IF_ERROR(WriteNorms(record));
  if (!metrics_.train_board) return OkStatus();
  std::vector<ScalarPoint> points = {
      ScalarPoint{"train/loss", record.loss},
      ScalarPoint{"train/lr", record.learning_rate},
      ScalarPoint{"train/grad_norm", record.gradient_norm},
      ScalarPoint{"train/skipped_steps", static_cast<double>(record.skipped)},
      ScalarPoint{"speed/step_ms", 1e3 * record.step_seconds},
      ScalarPoint{"speed/tokens_per_s", record.target_tokens_per_second},
      ScalarPoint{"time_pct/data", 100.0 * record.data_share},
      ScalarPoint{"time_pct/comm_exposed", 100.0 * record.comm_share},
      ScalarPoint{"progress/tokens", static_cast<double>(record.target_tokens)},
      ScalarPoint{"progress/epoch", record.epoch}};
  if (has_perplexity) {
    points.push_back({"train/nll", record.nll});
    points.push_back({"train/ppl", std::exp(record.nll)});
  }
  return metrics_.train_board->AddScalars(record.step, points);
}

Status RunRecords::AddPhases(const StepRecord& record) {
  // Many ranks make long records.
  constexpr size_t kManyRanks = 64;
  constexpr double kPeriod = 10.0;
  constexpr double kPeriodOfMany = 60.0;
  if (record.phases.empty()) return OkStatus();
  window_.phases.resize(record.phases.size());
  for (size_t rank = 0; rank < record.phases.size(); ++rank) {
    for (size_t i = 0; i < kNumPhases; ++i) window_.phases[rank][i] += record.phases[rank][i];
  }
  window_.step = record.step;
  window_.seconds += record.step_seconds * static_cast<double>(record.updates);
  const double period = record.phases.size() > kManyRanks ? kPeriodOfMany : kPeriod;
  return window_.seconds < period ? OkStatus() : WritePhases();
}

Status RunRecords::WritePhases() {
  if (window_.phases.empty()) return OkStatus();
  static_assert(recorded::kPhaseNames.size() == kNumPhases);
  JsonRecord json;
  json.Set(recorded::kStep, window_.step).Set(recorded::kSeconds, window_.seconds);
  for (size_t i = 0; i < kNumPhases; ++i) {
    std::vector<double> by_rank;
    // Microseconds are enough, and shorter.
    for (const PhaseSeconds& phases : window_.phases) {
      by_rank.push_back(std::round(1e6 * phases[i]) / 1e6);
    }
    json.SetList(recorded::kPhaseNames[i], by_rank);
  }
  json.Set(recorded::kTime, SecondsSince1970());
  window_ = {};
  return metrics_.phases.Write(json);
}

Status RunRecords::WriteNorms(const StepRecord& record) {
  if (record.norms.empty()) return OkStatus();
  JsonRecord groups;
  std::vector<std::pair<std::string, double>> tags;
  for (const GroupNorms& norms : record.norms) {
    groups.SetList(norms.group,
                   std::vector<double>{norms.gradient, norms.weight, norms.update_share});
    tags.emplace_back("update_share/" + norms.group, norms.update_share);
  }
  DT_RETURN_IF_ERROR(metrics_.norms.Write(JsonRecord()
                                              .Set(recorded::kStep, record.step)
                                              .Set(recorded::kGroups, groups)
                                              .Set(recorded::kTime, SecondsSince1970())));
  if (!metrics_.train_board) return OkStatus();
  return metrics_.train_board->AddScalars(record.step, PointsOf(tags));
}

Status RunRecords::Flush() {
  const Status written = WritePhases();
  DT_RETURN_IF_ERROR(metrics_.Flush());
  return written;
}

Status RunRecords::WriteEvaluation(const EvaluationRecord& record) {
  const EvaluationResult& result = *record.result;
  JsonRecord json;
  json.Set(recorded::kStep, record.step);
  std::vector<std::pair<std::string, double>> tags;
  for (const auto& [name, value] : result.metrics) {
    json.Set(name, value);
    tags.emplace_back("eval/" + name, value);
  }
  json.Set(recorded::kIsBest, record.is_best)
      .Set(recorded::kSeconds, result.seconds)
      .Set(recorded::kTime, SecondsSince1970());
  DT_RETURN_IF_ERROR(metrics_.eval.Write(json));
  if (!result.samples.empty()) {
    DT_RETURN_IF_ERROR(directory_.WriteSamples(record.step, result.samples));
  }
  if (!metrics_.eval_board) return Flush();
  DT_RETURN_IF_ERROR(metrics_.eval_board->AddScalars(record.step, PointsOf(tags)));
  if (!result.samples.empty()) {
    DT_RETURN_IF_ERROR(metrics_.eval_board->AddText(
        "text/samples", SamplesAsMarkdown(result.samples), record.step));
  }
  return Flush();
}

Status RunRecords::WriteRows(const EvaluationRecord& record) const {
  if (record.result->rows.rows.empty()) return OkStatus();
  RowValues values = record.result->rows;
  values.step = record.step;
  const std::string last = RowValuesPath(directory_.path(), "last");
  std::error_code error;
  // There is none before the second evaluation.
  std::filesystem::rename(last, RowValuesPath(directory_.path(), "previous"), error);
  DT_RETURN_IF_ERROR(WriteRowValues(last, values));
  if (!record.is_best) return OkStatus();
  return WriteRowValues(RowValuesPath(directory_.path(), "best"), values);
}

Status RunRecords::WriteTest(int64_t step, const EvaluationResult& result) const {
  JsonRecord json;
  json.Set(recorded::kStep, step);
  for (const auto& [name, value] : result.metrics) json.Set(name, value);
  json.Set(recorded::kSeconds, result.seconds).Set(recorded::kTime, SecondsSince1970());
  DT_ASSIGN_OR_RETURN(
      MetricsLog log,
      MetricsLog::Open(RecordsPath(directory_.path(), recorded::kTest), recorded::kTest, step - 1));
  DT_RETURN_IF_ERROR(log.Write(json));
  return log.Flush();
}

}  // namespace dtrain
