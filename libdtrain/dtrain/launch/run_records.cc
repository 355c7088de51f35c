// run_records.cc - records as JSON lines, and the same numbers as curves of TensorBoard.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/launch/run_records.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/unix_time.h"
#include "dtrain/runs/record_names.h"

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
