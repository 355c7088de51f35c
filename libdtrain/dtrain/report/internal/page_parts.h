// page_parts.h - the sections of a page, each as its HTML.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_REPORT_INTERNAL_PAGE_PARTS_H_
#define DTRAIN_REPORT_INTERNAL_PAGE_PARTS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/report/chart.h"
#include "dtrain/report/page.h"
#include "dtrain/report/run_report.h"

namespace dtrain::internal {

// The embedded files of page/, and their digests.
std::string_view ReportStyle();
std::string_view ReportStyleDigest();
std::string_view ReportScript();
std::string_view ReportScriptDigest();

// The parts of a page around its sections.
struct PageFrame {
  std::string title = {};
  std::string body = {};        // HTML
  std::string chart_data = {};  // JSON
};
std::string WholePage(const PageFrame& frame);

// "<section id=...><h2>...</h2>...</section>".
std::string Section(std::string_view id, std::string_view title, const std::string& body);

// The charts of one run, in their order. `buckets` bounds the points of each curve.
std::vector<Chart> RunCharts(const RunReport& report, size_t buckets);
// The curves of the samples of rank 0's host; empty if there are none.
std::vector<Chart> HostCharts(const RunReport& report, size_t buckets);
// Charts that lay runs over each other.
std::vector<Chart> ComparedCharts(std::span<const RunReport> reports, size_t buckets);

std::string HeaderPart(const RunReport& report);
std::string VerdictsPart(const RunReport& report);
std::string AnswersPart(const RunReport& report);
std::string TimePart(const RunReport& report);
std::string MachinesPart(const RunReport& report);
std::string SamplesPart(const RunReport& report);
std::string DataPart(const RunReport& report);
std::string AgainPart(const RunReport& report);
// Tables of several runs: results, and only the settings that differ.
std::string ComparePart(std::span<const RunReport> reports);
std::string DifferingSettings(std::span<const RunReport> reports);

// True if the page of these runs leaves out paths, names of hosts and command lines.
bool IsPublic(std::span<const RunReport> reports);

// A name for each run: the last part of its path, with folders before it where that names several
// runs. What is still the same, and on a public page all that is, gets a number.
std::vector<std::string> RunNames(std::span<const RunReport> reports);

// The word for a run's state and the class of its chip: "Finished" and "good".
struct StateWords {
  std::string word;
  std::string look;
};
StateWords StateOf(const RunReport& report);

// The place of the page that shows a verdict's or an answer's evidence: "c-loss", "data".
std::string AnchorOf(std::string_view curve);

}  // namespace dtrain::internal

#endif  // DTRAIN_REPORT_INTERNAL_PAGE_PARTS_H_
