// run_records.h - the files in which the root rank records a run while it trains, and its curves.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_LAUNCH_RUN_RECORDS_H_
#define DTRAIN_LAUNCH_RUN_RECORDS_H_

#include <cstdint>
#include <string>
#include <utility>

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
  Status WriteEvent(const JsonRecord& event) { return metrics_.events.Write(event); }
  // The result of the test set. It is measured once more if a finished run is started again: the
  // last record counts.
  Status WriteTest(int64_t step, const EvaluationResult& result) const;
  Status Flush() { return metrics_.Flush(); }

 private:
  const RunDirectory& directory_;
  RunMetrics metrics_;
};

}  // namespace dtrain

#endif  // DTRAIN_LAUNCH_RUN_RECORDS_H_
