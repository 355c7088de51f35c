// run_facts.cc - reads the files of a run directory.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/run_facts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/formats/safetensors.h"
#include "dtrain/report/internal/record_parser.h"
#include "dtrain/runs/checkpoint_directory.h"
#include "dtrain/runs/record_names.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// A run of a million updates has 30 MB of records.
constexpr int64_t kMaxRecordBytes = int64_t{4} << 30;
constexpr int64_t kMaxTextBytes = int64_t{16} << 20;

// The text of a file, or "" with a remark.
std::string TextOrRemark(const std::string& run, const std::string& name, int64_t max_bytes,
                         std::vector<std::string>& remarks) {
  std::error_code error;
  if (!fs::exists(run + "/" + name, error)) {
    remarks.push_back(name + " is missing.");
    return "";
  }
  StatusOr<std::string> text = ReadWholeFile(run + "/" + name, max_bytes);
  if (text.ok()) return *std::move(text);
  remarks.push_back(absl::StrCat(name, " cannot be read."));
  return "";
}

std::string Lines(int64_t count) {
  return absl::StrFormat("%d line%s", count, count == 1 ? "" : "s");
}

// Reads one stream of records, and remarks on its damage.
template <typename Record>
Status ReadRecords(std::string_view stream,
                   internal::StreamProblems (*parse)(std::string_view, std::vector<Record>&),
                   std::vector<Record>& records, RunFacts& run, bool is_optional = false) {
  const std::string name = RecordsPath("", stream).substr(1);
  std::error_code error;
  if (is_optional && !fs::exists(run.path + "/" + name, error)) return OkStatus();
  const std::string text = TextOrRemark(run.path, name, kMaxRecordBytes, run.remarks);
  const internal::StreamProblems problems = parse(text, records);
  if (problems.version > recorded::kVersion) {
    return DataError(absl::StrFormat(
        "%s/%s: records of version %d; this dtrain reads up to version %d: take a newer one",
        run.path, name, problems.version, recorded::kVersion));
  }
  if (problems.unread_lines > 0) {
    run.remarks.push_back(absl::StrFormat("%s: %s could not be read%s.", name,
                                          Lines(problems.unread_lines),
                                          problems.is_cut ? "; the last one is cut" : ""));
  }
  if (problems.repeated > 0) {
    run.remarks.push_back(
        absl::StrFormat("%s: %s of updates that were made again after a restart are left out.",
                        name, Lines(problems.repeated)));
  }
  return OkStatus();
}

// The files directly in a folder, by name.
std::vector<FileFacts> FilesIn(const std::string& path) {
  std::vector<FileFacts> files;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    if (!entry->is_regular_file(unreadable) || unreadable) continue;
    const auto bytes = entry->file_size(unreadable);
    if (!unreadable) {
      files.push_back({entry->path().filename().string(), static_cast<int64_t>(bytes)});
    }
  }
  std::sort(files.begin(), files.end(),
            [](const FileFacts& a, const FileFacts& b) { return a.name < b.name; });
  return files;
}

// "model.encoder.layers.0.fc1.weight" -> "model.encoder.layers": the parts before the first number,
// at most three.
std::string GroupOfTensor(std::string_view name) {
  std::string group;
  for (int parts = 0; parts < 3; ++parts) {
    const size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    if (is_number || dot == std::string_view::npos) break;
    absl::StrAppend(&group, group.empty() ? "" : ".", ToAbsl(part));
    name.remove_prefix(dot + 1);
  }
  return group.empty() ? std::string(name.substr(0, name.find('.'))) : group;
}

int64_t Elements(const NamedTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  return elements;
}

// The elements of the first moments in optimizer.safetensors, from its header; 0 without them.
int64_t TrainedParameters(const std::string& checkpoint) {
  const StatusOr<SafetensorsFile> file =
      SafetensorsFile::Open(checkpoint + "/optimizer.safetensors");
  if (!file.ok()) return 0;
  int64_t sum = 0;
  for (const NamedTensor& tensor : file->tensors()) {
    if (tensor.name.starts_with("m.")) sum += Elements(tensor);
  }
  return sum;
}

CheckpointFacts ReadCheckpoint(const std::string& run, std::vector<std::string>& remarks) {
  CheckpointFacts checkpoint;
  const std::vector<int64_t> steps = ListCheckpoints(run + "/ckpt");
  if (steps.empty()) {
    remarks.emplace_back("There is no checkpoint.");
    return checkpoint;
  }
  checkpoint.name = CheckpointName(steps.back());
  const std::string path = run + "/ckpt/" + checkpoint.name;
  checkpoint.files = FilesIn(path);
  checkpoint.trained_parameters = TrainedParameters(path);
  const StatusOr<SafetensorsFile> model = SafetensorsFile::Open(path + "/model.safetensors");
  if (!model.ok()) {
    remarks.push_back(checkpoint.name + "/model.safetensors cannot be read.");
    return checkpoint;
  }
  std::map<std::string, int64_t> groups;
  for (const NamedTensor& tensor : model->tensors()) {
    groups[GroupOfTensor(tensor.name)] += Elements(tensor);
  }
  checkpoint.parameters.assign(groups.begin(), groups.end());
  return checkpoint;
}

SampleFacts ReadNewestSamples(const std::string& run) {
  std::string newest;
  for (const FileFacts& file : FilesIn(run + "/samples")) {
    if (file.name.starts_with("step-") && file.name.ends_with(".tsv")) newest = file.name;
  }
  if (newest.empty()) return {};
  const StatusOr<std::string> text = ReadWholeFile(run + "/samples/" + newest, kMaxTextBytes);
  if (!text.ok()) return {};
  SampleFacts samples = internal::ParseSamples(*text);
  std::from_chars(newest.data() + 5, newest.data() + newest.size(), samples.step);
  return samples;
}

// Values per row of an evaluation that is among the records; what a restart left of a later one is
// not.
std::optional<RowValues> ReadRows(std::string_view which, RunFacts& run) {
  const std::string path = RowValuesPath(run.path, which);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  StatusOr<RowValues> rows = ReadRowValues(path);
  if (!rows.ok()) {
    run.remarks.push_back(path.substr(run.path.size() + 1) + " cannot be read.");
    return std::nullopt;
  }
  const bool is_known =
      std::any_of(run.evaluations.begin(), run.evaluations.end(),
                  [&](const EvaluationFacts& evaluation) { return evaluation.step == rows->step; });
  if (!is_known) return std::nullopt;
  return *std::move(rows);
}

std::string LastPart(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(path, error);
  const std::string name = absolute.filename().string();
  return error || name.empty() ? path : name;
}

}  // namespace

double EvaluationFacts::Metric(std::string_view name) const {
  for (const auto& [metric, value] : metrics) {
    if (metric == name) return value;
  }
  return kNoNumber;
}

int64_t CheckpointFacts::bytes() const {
  int64_t sum = 0;
  for (const FileFacts& file : files) sum += file.bytes;
  return sum;
}

int64_t CheckpointFacts::parameter_count() const {
  int64_t sum = 0;
  for (const auto& group : parameters) sum += group.second;
  return sum;
}

const SetFacts* PreparationFacts::Find(std::string_view set) const {
  const auto found =
      std::find_if(sets.begin(), sets.end(), [&](const SetFacts& s) { return s.name == set; });
  return found == sets.end() ? nullptr : &*found;
}

std::string SettingOf(const Settings& settings, std::string_view name) {
  for (const auto& [key, value] : settings) {
    if (key == name) return value;
  }
  return "";
}

double RunFacts::Number(std::string_view setting) const {
  const std::string text = Setting(setting);
  double value = kNoNumber;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value).ptr;
  return end == text.data() + text.size() && std::isfinite(value) ? value : kNoNumber;
}

int64_t RunFacts::updates() const {
  return std::max(status.step, steps.empty() ? int64_t{0} : steps.back().step);
}

bool IsRunFolder(const std::string& path) {
  std::error_code error;
  for (const char* const name : {"metrics", "STATUS", "cmdline.txt"}) {
    if (fs::exists(path + "/" + name, error)) return true;
  }
  return false;
}

StatusOr<RunFacts> ReadRun(const std::string& path) {
  if (!IsRunFolder(path)) {
    return DataError(path + ": holds no run: it has neither STATUS nor metrics; give a --run_dir");
  }
  RunFacts run{.path = path, .name = LastPart(path)};
  DT_RETURN_IF_ERROR(ReadRecords(recorded::kSteps, internal::ParseSteps, run.steps, run));
  DT_RETURN_IF_ERROR(
      ReadRecords(recorded::kEvaluations, internal::ParseEvaluations, run.evaluations, run));
  DT_RETURN_IF_ERROR(ReadRecords(recorded::kEvents, internal::ParseEvents, run.events, run));
  DT_RETURN_IF_ERROR(ReadRecords(recorded::kPhases, internal::ParsePhases, run.phases, run,
                                 /*is_optional=*/true));
  DT_RETURN_IF_ERROR(
      ReadRecords(recorded::kNorms, internal::ParseNorms, run.norms, run, /*is_optional=*/true));
  run.last_rows = ReadRows("last", run);
  run.previous_rows = ReadRows("previous", run);
  // The score that is shown is that of the last record.
  if (run.last_rows && run.last_rows->step != run.evaluations.back().step) run.last_rows.reset();
  DT_RETURN_IF_ERROR(
      ReadRecords(recorded::kHost, internal::ParseHost, run.host, run, /*is_optional=*/true));
  std::vector<EvaluationFacts> tests;
  DT_RETURN_IF_ERROR(
      ReadRecords(recorded::kTest, internal::ParseEvaluations, tests, run, /*is_optional=*/true));
  if (!tests.empty()) run.test = tests.back();
  const auto text = [&](const char* name) {
    return TextOrRemark(path, name, kMaxTextBytes, run.remarks);
  };
  run.status = internal::ParseStatus(text("STATUS"));
  std::error_code error;
  // A trainer of one's own keeps its settings as plain text.
  const bool has_own_config = fs::exists(path + "/config.txt", error);
  run.settings = ParseSettings(text(has_own_config ? "config.txt" : "config.textproto"));
  run.environment = internal::ParseEnvironment(text("env.json"));
  run.starts = internal::ParseStarts(text("cmdline.txt"));
  run.checkpoint = ReadCheckpoint(path, run.remarks);
  run.data_files = FilesIn(path + "/data");
  // Only translation writes one.
  if (fs::exists(path + "/data/prepare_report.json", error)) {
    run.preparation = internal::ParsePreparation(text("data/prepare_report.json"));
  }
  run.samples = ReadNewestSamples(path);
  return run;
}

}  // namespace dtrain
