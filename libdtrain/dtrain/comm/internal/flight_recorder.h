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

#include "dtrain/base/timer.h"
#include "dtrain/comm/flight_records.h"

namespace dtrain::internal {

class FlightRecorder {
 public:
  static constexpr int64_t kRecords = 1024;

  // The rank and the communicator whose collectives are recorded.
  struct Owner {
    int rank = 0;  // in the job
    std::string host{};
    // The number of the group among the splits of the job, or 0 for the communicator of all ranks.
    int group = 0;
    std::string group_name{};
  };
  FlightRecorder(std::shared_ptr<FlightRecords> records, Owner owner);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // A collective begins. `name` is a literal.
  void Begin(int64_t sequence, const char* name, int64_t bytes);
  void End(int64_t sequence);
  // Writes collectives-rank-RRRRR.jsonl, or collectives-rank-RRRRR-group-G.jsonl for a group, at
  // most once. The first line holds the rank, its host and the reason, and for a group its number
  // and ranks. Then follows a line per collective, the oldest first: {"sequence", "collective",
  // "bytes", "start_s", "end_s"}. Times are seconds since the communicator was made; "end_s" is
  // absent if the collective had not finished. Returns the path, or "" if nothing was written. Any
  // thread may call.
  std::string Dump(std::string_view reason);

 private:
  friend class dtrain::FlightRecords;

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
  std::mutex mutex_;  // guards the members below; taken after the mutex of records_
  bool dumped_ = false;
  int64_t next_ = 0;
  Timer clock_;
  std::array<Record, kRecords> ring_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_FLIGHT_RECORDER_H_
