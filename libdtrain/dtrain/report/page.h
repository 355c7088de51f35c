// page.h - the page of a run, of several runs laid over each other, and the index of a folder.
// SPDX-License-Identifier: Apache-2.0
//
// A page is one HTML file of at most a megabyte. It loads nothing, and a strict policy lets the
// browser run no other script and use no other style than ours.
#ifndef DTRAIN_REPORT_PAGE_H_
#define DTRAIN_REPORT_PAGE_H_

#include <span>
#include <string>

#include "dtrain/base/status.h"
#include "dtrain/report/run_report.h"

namespace dtrain {

// The page of the first run; the others are laid over it. There is at least one. If any report is
// public, the page is.
std::string ReportPage(std::span<const RunReport> reports);

// The page of all runs of a folder, the best first. It is public as above.
std::string IndexPage(const std::string& folder, std::span<const RunReport> reports);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_PAGE_H_
