// trace_files.cc - writes events as lines of JSON; merging only changes their times.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/trace_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/base/file.h"
#include "dtrain/base/internal/json_text.h"
#include "dtrain/runs/metrics_log.h"

namespace dtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kMostRanks = 1 << 20;  // a larger number means a damaged header
constexpr char kHeaderName[] = "dtrain_trace";
constexpr char kEnd[] = "\n]\n";

// Formats microseconds with three decimals, faster than floating-point formatting.
void AppendMicroseconds(int64_t nanoseconds, std::string& text) {
  const int64_t rest = nanoseconds % 1000;
  absl::StrAppend(&text, nanoseconds / 1000, rest < 10 ? ".00" : rest < 100 ? ".0" : ".", rest);
}

std::string LaneName(int lane) {
  if (lane == kComputeLane) return "compute";
  if (lane == kEvaluationLane) return "evaluation, checkpoints";
  const int first = lane < kTensorLane ? kCommunicationLane : kTensorLane;
  const char* const name = lane < kTensorLane ? "communication" : "tensors";
  return lane == first ? name : absl::StrCat(name, " ", lane - first + 1);
}

void AppendMetadata(const char* name, int rank, int lane, const JsonRecord& arguments,
                    std::string& text) {
  absl::StrAppend(&text, ",\n",
                  JsonRecord()
                      .Set("name", name)
                      .Set("ph", "M")
                      .Set("pid", rank)
                      .Set("tid", lane)
                      .Set("args", arguments)
                      .ToString());
}

void AppendSpan(const TimelineSpan& span, int rank, int lane, std::string& text) {
  // Names may come from callers and contain any characters.
  std::string event = JsonRecord().Set("name", span.name.data()).Set("ph", "X").ToString();
  event.pop_back();
  absl::StrAppend(&text, ",\n", event, ",\"ts\":");
  AppendMicroseconds(span.begin, text);
  text += ",\"dur\":";
  AppendMicroseconds(span.end - span.begin, text);
  absl::StrAppend(&text, ",\"pid\":", rank, ",\"tid\":", lane);
  const char* separator = ",\"args\":{\"";
  if (span.index >= 0) {
    absl::StrAppend(&text, separator, "index\":", span.index);
    separator = ",\"";
  }
  if (span.bytes >= 0) absl::StrAppend(&text, separator, "bytes\":", span.bytes);
  text += span.index >= 0 || span.bytes >= 0 ? "}}" : "}";
}

// Returns "" if the member is absent or not a text.
std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Reads a rank's trace line by line.
class TraceReader {
 public:
  static StatusOr<TraceReader> Open(const std::string& path) {
    TraceReader reader(path);
    Json header;
    DT_ASSIGN_OR_RETURN(const bool more, reader.Next(header));
    if (!more || TextOf(header, "name") != kHeaderName) {
      return StorageError(path + ": is not a trace of dtrain");
    }
    try {
      const Json& arguments = header.at("args");
      reader.header_ = {.rank = header.at("pid").get<int>(),
                        .ranks = arguments.at("ranks").get<int>(),
                        .host = arguments.at("host").get<std::string>(),
                        .clock_offset = 1e-6 * arguments.at("clock_offset_us").get<double>(),
                        .started = arguments.at("started").get<int64_t>()};
    } catch (const Json::exception& error) {
      return StorageError(absl::StrCat(path, ":2: ", error.what()));
    }
    return reader;
  }

  const TraceHeader& header() const { return header_; }
  const std::string& path() const { return path_; }

  // Reads the next event, with its time on rank 0's clock. Returns false after the last.
  StatusOr<bool> Next(Json& event) {
    std::string line;
    while (std::getline(file_, line)) {
      ++line_;
      if (line == "[" || line == "]" || line.empty()) continue;
      if (line.back() == ',') line.pop_back();
      event = internal::ParseJson<Json>(line);
      const bool timed = event.is_object() && TextOf(event, "ph") == "X";
      if (!event.is_object() || (timed && !(event.contains("ts") && event["ts"].is_number()))) {
        return StorageError(absl::StrCat(path_, ":", line_,
                                         ": the trace is damaged; remove what begins here, or "
                                         "the file"));
      }
      if (timed) event["ts"] = event["ts"].get<double>() - 1e6 * header_.clock_offset;
      return true;
    }
    return false;
  }

 private:
  explicit TraceReader(const std::string& path) : path_(path), file_(path) {}

  std::string path_;
  std::ifstream file_;
  int64_t line_ = 0;
  TraceHeader header_;
};

// The ranks that have traces in a folder, ascending.
std::vector<int> RanksIn(const std::string& directory) {
  std::vector<int> ranks;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    // Ignores copies ("rank-00001 (1).json").
    int rank = 0;
    if (std::sscanf(name.c_str(), "rank-%d", &rank) != 1) continue;
    if (fs::path(TracePath(directory, rank)).filename() == name) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

StatusOr<std::vector<std::string>> TracesIn(const std::string& directory) {
  std::vector<std::string> paths;
  for (const int rank : RanksIn(directory)) paths.push_back(TracePath(directory, rank));
  if (!paths.empty()) return paths;
  return UsageError(directory +
                    ": has no rank-*.json; give the trace/ folder of a run with "
                    "trainer.timeline=true, or the folder of a StepTimeline");
}

// Finds the ranks that are present and missing, and the time of the first event.
StatusOr<double> Examine(const std::string& directory, const std::vector<std::string>& paths,
                         MergedTrace& merged) {
  double first = std::numeric_limits<double>::infinity();
  int64_t started = 0;
  std::set<int> present;
  for (const std::string& path : paths) {
    DT_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
    if (path == paths.front()) {
      started = reader.header().started;
      merged.ranks = reader.header().ranks;
    } else if (reader.header().started != started) {
      return StorageError(absl::StrCat(path, ": belongs to another trace than ", paths.front(),
                                       "; remove the older files"));
    }
    const TraceHeader& header = reader.header();
    if (header.rank < 0 || header.rank >= merged.ranks || merged.ranks > kMostRanks ||
        TracePath(directory, header.rank) != path) {
      return StorageError(
          absl::StrFormat("%s: its header is that of rank %d of %d, but its name is not", path,
                          header.rank, header.ranks));
    }
    present.insert(header.rank);
    Json event;
    while (true) {
      DT_ASSIGN_OR_RETURN(const bool more, reader.Next(event));
      if (!more) break;
      if (event.contains("ts")) first = std::min(first, event["ts"].get<double>());
    }
  }
  for (int rank = 0; rank < merged.ranks; ++rank) {
    if (!present.contains(rank)) merged.missing.push_back(rank);
  }
  return std::isfinite(first) ? first : 0.0;
}

}  // namespace

std::string TracePath(const std::string& directory, int rank) {
  return absl::StrFormat("%s/rank-%05d.json", directory, rank);
}

Status RemoveTraces(const std::string& directory, int first) {
  for (const int rank : RanksIn(directory)) {
    if (rank < first) continue;
    const std::string path = TracePath(directory, rank);
    std::error_code error;
    fs::remove(path, error);
    if (error) return FileError(path, "remove", error.value());
  }
  return OkStatus();
}

StatusOr<TraceFile> TraceFile::Create(const std::string& path, const TraceHeader& header) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError(path, "create", errno);
  TraceFile file(path, descriptor, header.rank);
  std::string text;
  AppendMetadata(kHeaderName, header.rank, 0,
                 JsonRecord()
                     .Set("ranks", header.ranks)
                     .Set("host", header.host)
                     .Set("clock_offset_us", 1e6 * header.clock_offset)
                     .Set("started", header.started),
                 text);
  AppendMetadata(
      "process_name", header.rank, 0,
      JsonRecord().Set("name", absl::StrCat("rank ", header.rank, " (", header.host, ")")), text);
  AppendMetadata("process_sort_index", header.rank, 0, JsonRecord().Set("sort_index", header.rank),
                 text);
  text[0] = '[';  // replaces the comma between events
  DT_RETURN_IF_ERROR(file.Write(text));
  return file;
}

TraceFile::TraceFile(TraceFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      rank_(other.rank_),
      size_(other.size_),
      lanes_(std::move(other.lanes_)),
      free_after_(std::move(other.free_after_)) {}

TraceFile::~TraceFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status TraceFile::Append(std::span<const TimelineSpan> spans) {
  std::string text;
  for (const TimelineSpan& span : spans) {
    const int lane = LaneOf(span);
    UseLane(lane, text);
    AppendSpan(span, rank_, lane, text);
  }
  return text.empty() ? OkStatus() : Write(text);
}

void TraceFile::UseLane(int lane, std::string& text) {
  if (!lanes_.insert(lane).second) return;
  AppendMetadata("thread_name", rank_, lane, JsonRecord().Set("name", LaneName(lane)), text);
  AppendMetadata("thread_sort_index", rank_, lane, JsonRecord().Set("sort_index", lane), text);
}

int TraceFile::LaneOf(const TimelineSpan& span) {
  if (span.lane != kCommunicationLane && span.lane != kTensorLane) return span.lane;
  std::vector<int64_t>& free_after = free_after_[span.lane];
  size_t lane = 0;
  while (lane < free_after.size() && free_after[lane] > span.begin) ++lane;
  if (lane == free_after.size()) free_after.push_back(0);
  free_after[lane] = span.end;
  return span.lane + static_cast<int>(lane);
}

Status TraceFile::Write(const std::string& events) {
  // Overwrites the end of the array.
  const std::string text = events + kEnd;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::pwrite(descriptor_, text.data() + done, text.size() - done,
                                     static_cast<off_t>(size_) + static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) return FileError(path_, "write", errno);
    done += static_cast<size_t>(std::max<ssize_t>(written, 0));
  }
  size_ += static_cast<int64_t>(events.size());
  return OkStatus();
}

StatusOr<MergedTrace> MergeTraces(const std::string& directory, const std::string& output) {
  DT_ASSIGN_OR_RETURN(const std::vector<std::string> paths, TracesIn(directory));
  MergedTrace merged;
  DT_ASSIGN_OR_RETURN(const double first, Examine(directory, paths, merged));
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::equivalent(path, output, error)) {
      return UsageError(output + ": is one of the traces to merge; give another file to write");
    }
  }
  DT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(output));
  DT_RETURN_IF_ERROR(file.Write(std::string_view("[")));
  const char* separator = "\n";
  for (const std::string& path : paths) {
    DT_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
    Json event;
    while (true) {
      DT_ASSIGN_OR_RETURN(const bool more, reader.Next(event));
      if (!more) break;
      if (event.contains("ts")) {
        event["ts"] = std::round(1e3 * (event["ts"].get<double>() - first)) / 1e3;
        ++merged.events;
      }
      DT_RETURN_IF_ERROR(file.Write(separator + internal::JsonText(event)));
      separator = ",\n";
    }
  }
  DT_RETURN_IF_ERROR(file.Write(std::string_view(kEnd)));
  DT_RETURN_IF_ERROR(file.Commit(AtomicFile::Durability::kCrashOfProcess));
  return merged;
}

}  // namespace dtrain
