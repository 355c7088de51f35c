// record_names.h - the names of files and fields in which a run is recorded.
// SPDX-License-Identifier: Apache-2.0
//
// Whoever writes a record and whoever reads it take the names from here, so that they cannot
// differ. docs/run-directory.md says what each field means.
#ifndef DTRAIN_RUNS_RECORD_NAMES_H_
#define DTRAIN_RUNS_RECORD_NAMES_H_

#include <array>
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
inline constexpr std::string_view kTest = "test";     // the result of the test set, at the end
inline constexpr std::string_view kHost = "host";     // samples of the root's host
inline constexpr std::string_view kPhases = "ranks";  // where the time of each rank went
inline constexpr std::string_view kNorms = "norms";   // of groups of parameters

// In every record: seconds since 1970.
inline constexpr std::string_view kTime = "t";
// In every record but those of host: the number of updates so far.
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
// Before the names of losses on a sample of the training data.
inline constexpr char kTrainSamplePrefix[] = "train_sample_";

// The fields of events.
inline constexpr std::string_view kKind = "kind";
inline constexpr std::string_view kText = "text";
inline constexpr std::string_view kRanks = "ranks";  // of start and resume; in samples below

// The fields of host. Seconds and bytes are counted from the start of the host, or of a rank's
// process, so that a lost sample loses nothing.
inline constexpr std::string_view kCpuBusy = "cpu_busy";    // of all cores, in seconds
inline constexpr std::string_view kCpuTotal = "cpu_total";  // busy or not
inline constexpr std::string_view kMemoryAvailable = "memory_available";
inline constexpr std::string_view kMemoryTotal = "memory_total";
inline constexpr std::string_view kPageCache = "page_cache";
inline constexpr std::string_view kDiskRead = "disk_read";
inline constexpr std::string_view kDiskWritten = "disk_written";
inline constexpr std::string_view kNetworks = "networks";  // by interface, without the loopback
inline constexpr std::string_view kReceived = "received";
inline constexpr std::string_view kSent = "sent";
inline constexpr std::string_view kCpu = "cpu";        // of a rank, in seconds
inline constexpr std::string_view kMemory = "memory";  // of a rank, resident

// The fields of ranks, beside kSeconds: seconds since the record before, a list with a number for
// each rank. In the order of comm's Phase.
inline constexpr std::array<std::string_view, 8> kPhaseNames = {
    "start", "data", "forward", "backward", "exchange", "update", "evaluation", "checkpoint"};
// The field of norms: by group a list of the norm of the gradient, the norm of the weights, and the
// norm of their change divided by that.
inline constexpr std::string_view kGroups = "groups";

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
