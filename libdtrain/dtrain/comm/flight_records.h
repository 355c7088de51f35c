// flight_records.h - where a rank writes its last collectives when communication fails.
// SPDX-License-Identifier: Apache-2.0
//
//   RecordsOf(comm)->SetDefaultDirectory(run_dir + "/logs");
//
// A flight recorder (internal/flight_recorder.h) keeps the last collectives of one communicator in
// memory. This object knows the recorders of all communicators of a rank. Any thread may call it.
#ifndef DTRAIN_COMM_FLIGHT_RECORDS_H_
#define DTRAIN_COMM_FLIGHT_RECORDS_H_

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain {

namespace internal {
class FlightRecorder;
}

class FlightRecords {
 public:
  // An existing directory, or "". Without a directory nothing is written.
  explicit FlightRecords(std::string directory)
      : directory_(std::move(directory)), is_chosen_(!directory_.empty()) {}
  FlightRecords(const FlightRecords&) = delete;
  FlightRecords& operator=(const FlightRecords&) = delete;

  // An existing directory, used if CommunicatorOptions::record_directory named none.
  void SetDefaultDirectory(std::string directory);
  std::string directory() const;
  // Writes the file of every recorder. Warnings name the paths.
  void DumpAll(std::string_view reason);

 private:
  friend class internal::FlightRecorder;

  mutable std::mutex mutex_;
  std::string directory_;
  const bool is_chosen_;                              // by the options
  std::vector<internal::FlightRecorder*> recorders_;  // those that exist now
};

class Communicator;
// The records of this rank's last collectives. All communicators of a rank share them.
const std::shared_ptr<FlightRecords>& RecordsOf(const Communicator& comm);

}  // namespace dtrain

#endif  // DTRAIN_COMM_FLIGHT_RECORDS_H_
