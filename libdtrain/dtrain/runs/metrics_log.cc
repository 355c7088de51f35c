// metrics_log.cc - JSON lines, which are truncated to a step when a run resumes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/metrics_log.h"

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/base/log.h"
#include "dtrain/runs/internal/append_file.h"
#include "dtrain/runs/record_names.h"

namespace dtrain {
namespace {

using internal::AppendFile;

constexpr double kMetricsFlushSeconds = 1;

std::string SchemaLine(std::string_view stream) {
  return JsonRecord()
             .Set(recorded::kSchema, std::string(recorded::kSchemaPrefix) + std::string(stream))
             .Set(recorded::kSchemaVersion, recorded::kVersion)
             .ToString() +
         "\n";
}

// True if a record's step is at most `restored_step`, or if it has no step.
bool IsKept(std::string_view line, std::optional<int64_t> restored_step) {
  const nlohmann::json record = internal::ParseJson<nlohmann::json>(line);
  if (!record.is_object()) return false;
  if (!restored_step) return true;
  const auto step = record.find(std::string(recorded::kStep));
  return step == record.end() || !step->is_number_integer() ||
         step->get<int64_t>() <= *restored_step;
}

// The part of an earlier file's text that is kept.
std::string CutBack(std::string_view text, std::optional<int64_t> restored_step) {
  std::string kept;
  bool is_schema = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    if (is_schema || IsKept(text.substr(0, end), restored_step)) kept += text.substr(0, end + 1);
    is_schema = false;
    text.remove_prefix(end + 1);
  }
  return kept;
}

}  // namespace

JsonRecord& JsonRecord::SetRaw(std::string_view name, std::string_view json) {
  if (!fields_.empty()) fields_ += ',';
  fields_ += Quote(name);
  fields_ += ':';
  fields_ += json;
  return *this;
}

JsonRecord& JsonRecord::SetList(std::string_view name, std::span<const double> values) {
  std::string json = "[";
  for (const double value : values) {
    if (json.size() > 1) json += ',';
    json += FormatNumber(value);
  }
  return SetRaw(name, json + ']');
}

std::string JsonRecord::Quote(std::string_view text) {
  return internal::JsonText(nlohmann::json(text));
}

std::string JsonRecord::FormatNumber(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

struct MetricsLog::State {
  AppendFile file;
};

MetricsLog::MetricsLog(std::unique_ptr<State> state) : state_(std::move(state)) {}
MetricsLog::MetricsLog(MetricsLog&&) noexcept = default;
MetricsLog::~MetricsLog() = default;

StatusOr<MetricsLog> MetricsLog::Open(const std::string& path, std::string_view stream,
                                      std::optional<int64_t> restored_step) {
  const std::string schema = SchemaLine(stream);
  std::string kept;
  if (std::filesystem::exists(path)) {
    DT_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
    kept = CutBack(text, restored_step);
    if (!kept.empty() && !kept.starts_with(schema)) {
      return StorageError(absl::StrFormat("%s:1: not a dtrain.%s file of version 1; move it away",
                                          path, ToAbsl(stream)));
    }
    if (kept.size() < text.size()) {
      LogInfo(absl::StrFormat("%s: dropped %d bytes of records after the restored step", path,
                              text.size() - kept.size()));
      DT_RETURN_IF_ERROR(WriteFileAtomically(path, kept));
    }
  }
  DT_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(path, AppendFile::Mode::kAppend));
  MetricsLog log(std::make_unique<State>(State{std::move(file)}));
  if (kept.empty()) {
    DT_RETURN_IF_ERROR(log.state_->file.Append(schema, kMetricsFlushSeconds));
    DT_RETURN_IF_ERROR(log.Flush());
  }
  return log;
}

Status MetricsLog::Write(const JsonRecord& record) {
  return state_->file.Append(record.ToString() + "\n", kMetricsFlushSeconds);
}

Status MetricsLog::Flush() { return state_->file.Flush(); }

}  // namespace dtrain
