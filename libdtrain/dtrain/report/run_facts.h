// run_facts.h - what a run directory says of its run, as plain values.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(const RunFacts run, ReadRun("runs/mine"));
//   for (const StepFacts& step : run.steps) std::printf("%g\n", step.loss);
//
// A report is made of runs that were killed, of older versions, or still going on. So whatever is
// missing or damaged is left out and named in RunFacts::remarks; a number that is not there is NaN.
#ifndef DTRAIN_REPORT_RUN_FACTS_H_
#define DTRAIN_REPORT_RUN_FACTS_H_

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/runs/record_names.h"
#include "dtrain/runs/row_values.h"

namespace dtrain {

inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// One record of metrics/steps.jsonl.
struct StepFacts {
  int64_t step = 0;
  double epoch = kNoNumber;
  double loss = kNoNumber;
  double nll = kNoNumber;
  double learning_rate = kNoNumber;
  double gradient_norm = kNoNumber;
  double skipped = kNoNumber;  // updates so far
  double target_tokens = kNoNumber;
  double step_ms = kNoNumber;
  double data_share = kNoNumber;
  double comm_share = kNoNumber;
  double target_tokens_per_second = kNoNumber;
  double source_tokens_per_second = kNoNumber;
  double seconds = kNoNumber;  // never less than in the record before
  double time = kNoNumber;     // since 1970, as all times of records
};

// One record of metrics/eval.jsonl.
struct EvaluationFacts {
  int64_t step = 0;
  std::vector<std::pair<std::string, double>> metrics = {};  // in the order of the record
  bool is_best = false;
  double seconds = kNoNumber;
  double time = kNoNumber;

  // NaN if there is no such metric.
  double Metric(std::string_view name) const;
};

struct EventFacts {
  int64_t step = 0;
  std::string kind = {};
  std::string text = {};
  double time = kNoNumber;
  double ranks = kNoNumber;  // of start and resume
};

// One record of metrics/host.jsonl. Bytes and seconds are sums since some start.
struct HostFacts {
  struct Network {
    std::string name = {};
    double received = kNoNumber;
    double sent = kNoNumber;
  };
  struct Rank {
    std::string rank = {};
    double cpu = kNoNumber;
    double memory = kNoNumber;
  };

  double time = kNoNumber;
  double cpu_busy = kNoNumber;
  double cpu_total = kNoNumber;
  double memory_available = kNoNumber;
  double memory_total = kNoNumber;
  double page_cache = kNoNumber;
  double disk_read = kNoNumber;
  double disk_written = kNoNumber;
  std::vector<Network> networks = {};
  std::vector<Rank> ranks = {};
};

// One record of metrics/ranks.jsonl: seconds since the record before.
struct RankFacts {
  int64_t step = 0;
  double seconds = kNoNumber;  // of training
  // Seconds of each rank, by recorded::kPhaseNames.
  std::vector<std::array<double, recorded::kPhaseNames.size()>> ranks = {};
};

// One record of metrics/norms.jsonl.
struct NormFacts {
  struct Group {
    std::string name = {};
    double gradient = kNoNumber;
    double weight = kNoNumber;
    double update_share = kNoNumber;
  };

  int64_t step = 0;
  std::vector<Group> groups = {};
};

// One start of the program: a line of cmdline.txt.
struct StartFacts {
  std::string time = {};
  std::string command = {};
};

struct StatusFacts {
  std::string state = {};  // "done"; "" if there is no STATUS
  int64_t step = 0;
  int64_t exit_code = 0;
  std::string host = {};
  std::string message = {};
  double heartbeat = kNoNumber;  // seconds since 1970
};

struct FileFacts {
  std::string name = {};
  int64_t bytes = 0;
};

struct CheckpointFacts {
  std::string name = {};  // "step-00001200"; "" if there is none
  std::vector<FileFacts> files = {};
  // Elements of the model's tensors, by the first parts of their names.
  std::vector<std::pair<std::string, int64_t>> parameters = {};
  // Elements that the optimizer has first moments of: those that are not frozen. 0: not known.
  int64_t trained_parameters = 0;

  int64_t bytes() const;
  int64_t parameter_count() const;
};

// One language of one set of sentence pairs.
struct SideFacts {
  double words = kNoNumber;
  double pieces = kNoNumber;
  double pieces_per_word = kNoNumber;
  double unknown_rate = kNoNumber;
};

struct SetFacts {
  std::string name = {};  // "train"
  double pairs = kNoNumber;
  double cut_pairs = kNoNumber;
  SideFacts source = {};
  SideFacts target = {};
};

// data/prepare_report.json.
struct PreparationFacts {
  double pairs_read = kNoNumber;
  double pairs_kept = kNoNumber;
  std::vector<std::pair<std::string, double>> dropped = {};  // by rule, those that dropped any
  std::vector<SetFacts> sets = {};

  const SetFacts* Find(std::string_view set) const;
};

struct SampleFacts {
  int64_t step = 0;
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};
};

using Settings = std::vector<std::pair<std::string, std::string>>;

// The settings of a textproto as dtrain prints it: one field or brace a line.
Settings ParseSettings(std::string_view text);
// "" if there is none of that name.
std::string SettingOf(const Settings& settings, std::string_view name);

struct RunFacts {
  std::string path = {};
  std::string name = {};  // the last part of the path
  StatusFacts status = {};
  std::vector<StepFacts> steps = {};
  std::vector<EvaluationFacts> evaluations = {};
  std::vector<EventFacts> events = {};
  // Values per row of the last evaluation, and of the one before.
  std::optional<RowValues> last_rows = {};
  std::optional<RowValues> previous_rows = {};
  std::optional<EvaluationFacts> test = {};  // of the test set, at the end
  std::vector<RankFacts> phases = {};        // where the time of each rank went
  std::vector<NormFacts> norms = {};
  std::vector<HostFacts> host = {};  // where rank 0 is, in the order of time
  std::vector<StartFacts> starts = {};
  Settings settings = {};     // "trainer.max_steps": "1000"
  Settings environment = {};  // env.json
  CheckpointFacts checkpoint = {};
  std::optional<PreparationFacts> preparation = {};
  std::vector<FileFacts> data_files = {};
  SampleFacts samples = {};
  std::vector<std::string> remarks = {};  // what is missing or could not be read, as sentences

  // Value of a setting; NaN if it is no finite number.
  double Number(std::string_view setting) const;
  std::string Setting(std::string_view key) const { return SettingOf(settings, key); }
  std::string Environment(std::string_view key) const { return SettingOf(environment, key); }
  int64_t updates() const;
  // Seconds of training: the last record's.
  double seconds() const { return steps.empty() ? kNoNumber : steps.back().seconds; }
};

// True if the folder holds a run, or what is left of one.
bool IsRunFolder(const std::string& path);

// DataError (exit code 3) if the folder holds no run, or records of a newer version.
StatusOr<RunFacts> ReadRun(const std::string& path);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_RUN_FACTS_H_
