// flight_recorder.h - the last collectives of a rank, written to a file when communication fails.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_FLIGHT_RECORDER_H_
#define DTRAIN_COMM_INTERNAL_FLIGHT_RECORDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/timer.h"

namespace dtrain::internal {

class FlightRecorder;

// The recorders of a rank, those of its groups too, and where they write. Any thread may call.
class FlightRecords {
 public:
  // `directory` may be empty: nothing is written then.
  explicit FlightRecords(std::string directory) : directory_(std::move(directory)) {}
  FlightRecords(const FlightRecords&) = delete;
  FlightRecords& operator=(const FlightRecords&) = delete;

  void SetDirectory(std::string directory);
  std::string directory() const;
  // FlightRecorder::Dump() of all; warnings have the paths.
  void DumpAll(std::string_view reason);

 private:
  friend class FlightRecorder;

  mutable std::mutex mutex_;
  std::string directory_;
  std::vector<FlightRecorder*> recorders_;  // those that live
};

class FlightRecorder {
 public:
  static constexpr int64_t kRecords = 1024;

  // The record of a rank in one communicator. number: of the group among the splits of the job; 0:
  // all ranks, as they began.
  struct Owner {
    int rank = 0;  // in the job
    std::string host{};
    int group = 0;
    std::string group_name{};
  };
  FlightRecorder(std::shared_ptr<FlightRecords> records, Owner owner);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // `name` is a literal.
  void Begin(int64_t sequence, const char* name, int64_t bytes);
  void End(int64_t sequence);
  // Writes collectives-rank-RRRRR.jsonl (of a group collectives-rank-RRRRR-group-G.jsonl), once: a
  // line with the rank, host and reason, of a group its number and ranks, then one per collective,
  // the oldest first: {"sequence", "collective", "bytes", "start_s", "end_s"}, in seconds since the
  // communicator was made; no end where it had not finished. Returns the path, or "" where nothing
  // was written. Any thread may call.
  std::string Dump(std::string_view reason);

 private:
  friend class FlightRecords;

  struct Record {
    int64_t sequence = -1;
    const char* name = "";
    int64_t bytes = 0;
    double start = 0;
    double end = -1;
  };

  std::string DumpTo(const std::string& directory, std::string_view reason);

  const std::shared_ptr<FlightRecords> records_;
  const Owner owner_;
  std::mutex mutex_;  // of what follows; taken after that of records_
  bool dumped_ = false;
  int64_t next_ = 0;
  Timer clock_;
  std::array<Record, kRecords> ring_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_FLIGHT_RECORDER_H_
