// write_report.cc - reads a run, judges it, and replaces its page.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/write_report.h"

#include <span>
#include <string_view>
#include <utility>

#include "dtrain/base/file.h"
#include "dtrain/report/page.h"
#include "dtrain/report/run_facts.h"

namespace dtrain {
namespace {

// Not durable: a report can be made again, and to wait for the disk would hold up the run.
Status Replace(const std::string& path, std::string_view text) {
  DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  DT_RETURN_IF_ERROR(file.Write(text));
  return file.Commit(AtomicFile::Durability::kCrashOfProcess);
}

}  // namespace

Status WriteReport(const std::string& run, const ReportOptions& options) {
  DT_ASSIGN_OR_RETURN(RunFacts facts, ReadRun(run));
  const RunReport report = MakeReport(std::move(facts), options);
  DT_RETURN_IF_ERROR(Replace(run + "/report.html", ReportPage(std::span(&report, 1))));
  return Replace(run + "/report.json", ReportJson(report));
}

}  // namespace dtrain
