// trace_files.h - timelines as Chrome traces: one file per rank, and all of them merged.
// SPDX-License-Identifier: Apache-2.0
//
// The JSON array form of the Trace Event Format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), one event per
// line, for https://ui.perfetto.dev: pid is the rank, tid the lane, times are microseconds. Spans
// of the communication and of the tensor lane that overlap get lanes of their own, from there on.
#ifndef DTRAIN_RUNS_TRACE_FILES_H_
#define DTRAIN_RUNS_TRACE_FILES_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/base/timeline.h"

namespace dtrain {

// What a file says of itself.
struct TraceHeader {
  int rank = 0;
  int ranks = 1;
  std::string host = {};
  double clock_offset = 0.0;  // seconds that Timeline::Now() is ahead of rank 0's
  int64_t started = 0;        // the same number in all files of a trace, and in no other trace
};

// A rank's trace. The file is whole after every Append().
class TraceFile {
 public:
  // Replaces what is there. StorageError.
  static StatusOr<TraceFile> Create(const std::string& path, const TraceHeader& header);
  TraceFile(TraceFile&& other) noexcept;
  TraceFile& operator=(TraceFile&&) = delete;
  ~TraceFile();

  Status Append(std::span<const TimelineSpan> spans);

 private:
  TraceFile(std::string path, int descriptor, int rank)
      : path_(std::move(path)), descriptor_(descriptor), rank_(rank) {}

  // Names the lane where it is new.
  void UseLane(int lane, std::string& text);
  int LaneOf(const TimelineSpan& span);
  Status Write(const std::string& events);

  std::string path_;
  int descriptor_;
  int rank_;
  int64_t size_ = 0;     // without the end of the array
  std::set<int> lanes_;  // that have names
  // Of communication and of tensors: when each lane's last span ended.
  std::map<int, std::vector<int64_t>> free_after_;
};

// "DIRECTORY/rank-00003.json".
std::string TracePath(const std::string& directory, int rank);

// Removes those of rank `first` and above, which an older trace of more ranks left. StorageError.
Status RemoveTraces(const std::string& directory, int first);

struct MergedTrace {
  int ranks = 0;  // of the job
  std::vector<int> missing = {};
  int64_t events = 0;
};

// All ranks' traces of a folder, on rank 0's clock, from 0 on. StorageError where there are none,
// where one is damaged, or where they are not of one trace.
StatusOr<MergedTrace> MergeTraces(const std::string& directory, const std::string& output);

}  // namespace dtrain

#endif  // DTRAIN_RUNS_TRACE_FILES_H_
