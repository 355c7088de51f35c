// trace_files.h - timelines as Chrome traces: one file per rank, and a merged file.
// SPDX-License-Identifier: Apache-2.0
//
// The JSON array form of the Trace Event Format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), one event per
// line, to view in https://ui.perfetto.dev. pid is the rank, tid is the lane, and times are in
// microseconds. Overlapping spans of the communication and tensor lanes get additional lanes.
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

// The header of a trace file.
struct TraceHeader {
  int rank = 0;
  int ranks = 1;
  std::string host = {};
  double clock_offset = 0.0;  // seconds by which Timeline::Now() is ahead of rank 0's
  int64_t started = 0;        // identifies the trace: the same number in all its files, and in no
                              // other trace
};

// One rank's trace. The file is complete JSON after every Append().
class TraceFile {
 public:
  // Creates the file or replaces an existing one. Returns StorageError for disk errors.
  static StatusOr<TraceFile> Create(const std::string& path, const TraceHeader& header);
  TraceFile(TraceFile&& other) noexcept;
  TraceFile& operator=(TraceFile&&) = delete;
  ~TraceFile();

  Status Append(std::span<const TimelineSpan> spans);

 private:
  TraceFile(std::string path, int descriptor, int rank)
      : path_(std::move(path)), descriptor_(descriptor), rank_(rank) {}

  // Writes the name of the lane when it is first used.
  void UseLane(int lane, std::string& text);
  int LaneOf(const TimelineSpan& span);
  Status Write(const std::string& events);

  std::string path_;
  int descriptor_;
  int rank_;
  int64_t size_ = 0;     // without the end of the array
  std::set<int> lanes_;  // lanes whose names were written
  // For the communication and tensor lanes: when the last span of each lane ended.
  std::map<int, std::vector<int64_t>> free_after_;
};

// For example "DIRECTORY/rank-00003.json".
std::string TracePath(const std::string& directory, int rank);

// Removes the traces of rank `first` and above, which an older trace with more ranks left. Returns
// StorageError for disk errors.
Status RemoveTraces(const std::string& directory, int first);

struct MergedTrace {
  int ranks = 0;  // number of ranks of the job
  std::vector<int> missing = {};
  int64_t events = 0;
};

// Merges all ranks' traces of a folder to one on rank 0's clock, starting at 0. Returns
// StorageError if there are none, if one is damaged, or if they do not belong to one trace.
StatusOr<MergedTrace> MergeTraces(const std::string& directory, const std::string& output);

}  // namespace dtrain

#endif  // DTRAIN_RUNS_TRACE_FILES_H_
