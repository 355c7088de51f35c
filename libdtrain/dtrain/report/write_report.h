// write_report.h - writes report.html and report.json into the directory of their run.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_REPORT_WRITE_REPORT_H_
#define DTRAIN_REPORT_WRITE_REPORT_H_

#include <string>

#include "dtrain/base/status.h"
#include "dtrain/report/run_report.h"

namespace dtrain {

// Replaces both files; a reader sees the old or the new ones. Errors are those of ReadRun(), or
// StorageError if a file cannot be written.
Status WriteReport(const std::string& run, const ReportOptions& options = {});

}  // namespace dtrain

#endif  // DTRAIN_REPORT_WRITE_REPORT_H_
