// run_records.h - the files in which the root rank records a run while it trains, and its curves.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_RUN_RECORDS_H_
#define DTRAIN_LAUNCH_RUN_RECORDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/runs/metrics_log.h"
#include "dtrain/runs/run_directory.h"
#include "dtrain/train/train_observer.h"

namespace dtrain {

// Each function returns the first error of the disk; the others are still called after one.
class RunRecords {
 public:
  // `directory` outlives this.
  RunRecords(const RunDirectory& directory, RunMetrics metrics)
      : directory_(directory), metrics_(std::move(metrics)) {}

  Status WriteStep(const StepRecord& record, bool has_perplexity);
  Status WriteEvaluation(const EvaluationRecord& record);
  // The values per row: those of the last evaluation become those of the previous one.
  Status WriteRows(const EvaluationRecord& record) const;
  Status WriteEvent(const JsonRecord& event) { return metrics_.events.Write(event); }
  // The result of the test set. It is measured once more if a finished run is started again: the
  // last record counts.
  Status WriteTest(int64_t step, const EvaluationResult& result) const;
  Status Flush();

 private:
  // Adds the times of the ranks, and writes them where enough have come together: at most a record
  // for 10 s of training, so that they stay few beside the records of updates.
  Status AddPhases(const StepRecord& record);
  Status WritePhases();
  Status WriteNorms(const StepRecord& record);

  const RunDirectory& directory_;
  RunMetrics metrics_;
  struct Window {
    int64_t step = 0;
    double seconds = 0.0;
    std::vector<PhaseSeconds> phases = {};  // of each rank
  } window_;
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_RUN_RECORDS_H_
