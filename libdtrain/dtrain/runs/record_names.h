// record_names.h - the names of files and fields in which a run is recorded.
// SPDX-License-Identifier: Apache-2.0
//
// Whoever writes a record and whoever reads it take the names from here, so that they cannot
// differ. docs/run-directory.md says what each field means.
#ifndef DTRAIN_RUNS_RECORD_NAMES_H_
#define DTRAIN_RUNS_RECORD_NAMES_H_

#include <string>
#include <string_view>

namespace dtrain::recorded {

// The version of the schemas "dtrain.steps", "dtrain.eval" and "dtrain.events".
inline constexpr int kVersion = 1;
inline constexpr std::string_view kSchema = "schema";
inline constexpr std::string_view kSchemaVersion = "version";
inline constexpr std::string_view kSchemaPrefix = "dtrain.";

// The streams, each in the file metrics/STREAM.jsonl.
inline constexpr std::string_view kSteps = "steps";
inline constexpr std::string_view kEvaluations = "eval";
inline constexpr std::string_view kEvents = "events";

// In every record: the number of updates so far.
inline constexpr std::string_view kStep = "step";

// The fields of steps.
inline constexpr std::string_view kEpoch = "epoch";
inline constexpr std::string_view kLoss = "loss";  // in evaluations, too
inline constexpr std::string_view kNll = "nll";    // in some evaluations, too
inline constexpr std::string_view kLearningRate = "lr";
inline constexpr std::string_view kGradientNorm = "grad_norm";
inline constexpr std::string_view kSkipped = "skipped";
inline constexpr std::string_view kTargetTokens = "target_tokens";
inline constexpr std::string_view kStepMs = "step_ms";
inline constexpr std::string_view kDataShare = "data_share";
inline constexpr std::string_view kCommShare = "comm_share";
inline constexpr std::string_view kTargetTokensPerSecond = "target_tokens_per_s";
inline constexpr std::string_view kSourceTokensPerSecond = "source_tokens_per_s";
inline constexpr std::string_view kSeconds = "seconds";  // in evaluations, too

// The fields of evaluations, beside metrics under names of their own.
inline constexpr std::string_view kIsBest = "is_best";

// The fields of events.
inline constexpr std::string_view kKind = "kind";
inline constexpr std::string_view kText = "text";

// Kinds of events that a reader looks for, and how their texts begin.
inline constexpr char kStartEvent[] = "start";
inline constexpr char kResumeEvent[] = "resume";
inline constexpr char kGoingOn[] = "going on from ";
inline constexpr char kCheckpointEvent[] = "checkpoint";
inline constexpr char kStopEvent[] = "stop";
inline constexpr char kComplete[] = "the run is complete: ";

}  // namespace dtrain::recorded

namespace dtrain {

// The file of a stream in the run directory `run`.
inline std::string RecordsPath(const std::string& run, std::string_view stream) {
  return run + "/metrics/" + std::string(stream) + ".jsonl";
}

}  // namespace dtrain

#endif  // DTRAIN_RUNS_RECORD_NAMES_H_
