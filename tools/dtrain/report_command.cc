// report_command.cc - `dtrain report RUN...`: a page that says how a run went, from its records.
// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dtrain/base/file.h"
#include "dtrain/base/printable.h"
#include "dtrain/config/config.h"
#include "dtrain/config/flag_set.h"
#include "dtrain/launch/run_on_ranks.h"
#include "dtrain/report/page.h"
#include "dtrain/report/run_facts.h"
#include "dtrain/report/run_report.h"
#include "tools/dtrain/commands.h"
#include "tools/dtrain/program_config.h"
#include "tools/dtrain/text_output.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// A verdict as bad as --fail_on says ends the command with this code.
constexpr int kBadVerdict = 4;
// Bytes of a run's line in a list.
constexpr size_t kMostListed = 1000;

struct ReportFlags {
  std::string output = {};
  std::string json = {};
  std::string fail_on = {};
  bool text = false;
  bool is_public = false;
};

// The settings of a program that nobody sets; empty if there is no such program.
Settings DefaultsOf(const std::string& program) {
  const StatusOr<std::unique_ptr<google::protobuf::Message>> config =
      program.empty() ? UsageError("no program") : LoadProgramConfig({}, program);
  if (!config.ok()) return {};
  return ParseSettings(PrintConfig(**config, ConfigFormat::kFull));
}

StatusOr<RunReport> ReportOf(const std::string& path, const ReportFlags& flags) {
  DT_ASSIGN_OR_RETURN(RunFacts run, ReadRun(path));
  Settings defaults = DefaultsOf(run.Environment("program"));
  return MakeReport(std::move(run),
                    {.defaults = std::move(defaults), .is_public = flags.is_public});
}

// The runs in a folder and the folders in it, by name.
std::vector<std::string> RunsBelow(const std::string& folder) {
  constexpr int kDepth = 3;
  std::vector<std::string> runs;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code unreadable;
    if (!entry->is_directory(unreadable) || unreadable) continue;
    const std::string path = entry->path().string();
    if (IsRunFolder(path)) runs.push_back(path);
    if (IsRunFolder(path) || entry.depth() + 1 >= kDepth) entry.disable_recursion_pending();
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

Status WriteText(const std::string& path, const std::string& text) {
  DT_ASSIGN_OR_RETURN(TextOutput output, TextOutput::Open(path));
  DT_RETURN_IF_ERROR(output.Write(text));
  return output.Close();
}

// Writes a page, and says where.
Status WritePage(const std::string& path, const std::string& page) {
  DT_RETURN_IF_ERROR(WriteText(path, page));
  if (path != "-") std::printf("report   %s\n", path.c_str());
  return OkStatus();
}

// The reports of the runs in a folder. A run that cannot be read is named and left out.
StatusOr<std::vector<RunReport>> ReportsBelow(const std::string& folder, const ReportFlags& flags) {
  std::vector<RunReport> reports;
  for (const std::string& run : RunsBelow(folder)) {
    StatusOr<RunReport> report = ReportOf(run, flags);
    if (report.ok()) {
      reports.push_back(*std::move(report));
    } else {
      std::fprintf(stderr, "left out: %s\n", report.status().message().c_str());
    }
  }
  if (reports.empty()) return DataError(folder + ": holds no run, and none is in a folder below");
  return reports;
}

Status WriteIndex(const std::string& folder, const std::vector<RunReport>& reports,
                  const ReportFlags& flags) {
  if (flags.text) {
    for (const RunReport& report : reports) {
      const std::string& name = flags.is_public ? report.run.name : report.run.path;
      // A file name, or STATUS, may hold what moves a terminal's cursor.
      DT_RETURN_IF_ERROR(WriteStdout(
          Printable(absl::StrCat(name, ": ", report.run.status.state, ", ", ScoreText(report), ", ",
                                 report.run.updates(), " updates"),
                    kMostListed) +
          "\n"));
    }
    if (flags.output.empty()) return OkStatus();
  }
  return WritePage(flags.output.empty() ? folder + "/report.html" : flags.output,
                   IndexPage(folder, reports));
}

Status WriteReports(const std::vector<RunReport>& reports, const ReportFlags& flags) {
  const std::string& run = reports.front().run.path;
  const bool is_one = reports.size() == 1;
  if (flags.text) {
    for (const RunReport& report : reports) DT_RETURN_IF_ERROR(WriteStdout(ReportText(report)));
  }
  // Whoever only wants text need not be able to write into the run.
  const bool wants_files = !flags.text || !flags.output.empty();
  if (wants_files) {
    const std::string page = is_one ? run + "/report.html" : "report.html";
    DT_RETURN_IF_ERROR(WritePage(flags.output.empty() ? page : flags.output, ReportPage(reports)));
  }
  if (!flags.json.empty()) return WriteText(flags.json, ReportJson(reports.front()));
  if (!wants_files || !is_one || !flags.output.empty()) return OkStatus();
  return WriteText(run + "/report.json", ReportJson(reports.front()));
}

bool HasVerdict(const std::vector<RunReport>& reports, const std::string& level) {
  const VerdictLevel worst = level == "warn" ? VerdictLevel::kWarn : VerdictLevel::kBad;
  return std::any_of(reports.begin(), reports.end(), [&](const RunReport& report) {
    // The worst are the first.
    return !report.verdicts.empty() && report.verdicts.front().level <= worst;
  });
}

StatusOr<int> Report(int argc, char** argv, FlagSet& set, const ReportFlags& flags) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> runs, set.Parse(argc, argv));
  if (set.help_wanted()) {
    std::fputs(set.Help().c_str(), stdout);
    return 0;
  }
  if (runs.empty()) return UsageError("give a run directory: dtrain report RUN");
  if (!flags.fail_on.empty() && flags.fail_on != "bad" && flags.fail_on != "warn") {
    return UsageError("--fail_on is \"" + flags.fail_on + "\"; give bad or warn");
  }
  std::vector<RunReport> reports;
  if (runs.size() == 1 && !IsRunFolder(runs.front())) {
    const std::string& folder = runs.front();
    if (!flags.json.empty()) {
      return UsageError("--json is for one run, and " + folder +
                        " is a folder of runs: give one of them");
    }
    DT_ASSIGN_OR_RETURN(reports, ReportsBelow(folder, flags));
    DT_RETURN_IF_ERROR(WriteIndex(folder, reports, flags));
  } else {
    for (const std::string& run : runs) {
      DT_ASSIGN_OR_RETURN(RunReport report, ReportOf(run, flags));
      reports.push_back(std::move(report));
    }
    DT_RETURN_IF_ERROR(WriteReports(reports, flags));
  }
  return !flags.fail_on.empty() && HasVerdict(reports, flags.fail_on) ? kBadVerdict : 0;
}

}  // namespace

int ReportCommand(int argc, char** argv) {
  ReportFlags flags;
  FlagSet set(
      "dtrain report RUN... [--output=FILE]",
      "writes RUN/report.html and RUN/report.json: whether the run finished, is fully "
      "trained and overfits, where its time went, its curves, data and settings. Of several "
      "runs it writes one page, report.html, that reports the first and compares all. Of a "
      "folder of runs it writes a list");
  set.Add("output", "file for the page; - is standard output", &flags.output);
  set.Add("json", "file for the numbers and verdicts as JSON", &flags.json);
  set.Add("text", "print verdicts and answers, and write no page unless --output is given",
          &flags.text);
  set.Add("public", "leave out paths, host names and command lines", &flags.is_public);
  set.Add("fail_on", "bad or warn: end with exit code 4 if there is such a verdict",
          &flags.fail_on);
  const StatusOr<int> code = Report(argc, argv, set, flags);
  return code.ok() ? *code : ReportAndGetExitCode(code.status());
}

}  // namespace dtrain
