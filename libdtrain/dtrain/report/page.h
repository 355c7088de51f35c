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

struct PageOptions {
  // Leaves out paths, names of hosts and users, and command lines.
  bool is_public = false;
};

// The page of the first run; the others are laid over it. There is at least one.
std::string ReportPage(std::span<const RunReport> reports, const PageOptions& options = {});

// The page of all runs of a folder, the best first.
std::string IndexPage(const std::string& folder, std::span<const RunReport> reports);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_PAGE_H_
