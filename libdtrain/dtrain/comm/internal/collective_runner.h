// collective_runner.h - moves the collectives in flight, awaits them, and reports their failure.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_COLLECTIVE_RUNNER_H_
#define DTRAIN_COMM_INTERNAL_COLLECTIVE_RUNNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/flight_recorder.h"
#include "dtrain/comm/internal/host_channels.h"
#include "dtrain/comm/internal/operation.h"
#include "dtrain/comm/internal/transport.h"
#include "dtrain/comm/internal/wait_watchdog.h"

namespace dtrain::internal {

// What the recorder and the heartbeats note about a collective.
struct CollectiveLabel {
  const char* name;  // a literal
  int64_t bytes = 0;
  // The rest lets heartbeats find ranks out of step.
  bool same_bytes = true;  // all ranks pass the same number of bytes
  int64_t kind = 0;        // below 2^16, the same on all ranks: type and operation, or root
};

class CollectiveRunner {
 public:
  // `transport` and `channels` outlive the runner. context: that of the transport.
  CollectiveRunner(Transport* transport, const HostChannels* channels, const RankTopology& topology,
                   const CommunicatorOptions& options, std::shared_ptr<Heartbeat> heartbeat,
                   std::shared_ptr<FlightRecords> records, int context);

  // The number of the next collective.
  int64_t sequence() const { return sequence_; }
  std::unique_ptr<Handle> Start(const CollectiveLabel& label, std::unique_ptr<Operation> operation);
  // Moves all operations. Throws CommError if communication has failed.
  void Poll();
  // The communicator is complete. Users count from their own first collective. reports: heartbeats
  // report the collectives from now on.
  void EndSetUp(bool reports);

 private:
  struct Outstanding {
    std::unique_ptr<Operation> operation;
    WaitState state;
    bool done = false;
  };
  class HandleImpl;

  void Wait(const Outstanding& outstanding);
  // Keeps the reason for all later calls and writes the record.
  [[noreturn]] void Fail(std::string reason);
  int64_t Moves() const { return transport_->finished() + channels_->moves(); }

  Transport* transport_;
  const HostChannels* channels_;
  std::string name_;  // of this rank
  std::shared_ptr<Heartbeat> heartbeat_;
  bool reports_ = false;
  WaitWatchdog wait_watchdog_;
  FlightRecorder recorder_;
  int64_t sequence_ = 0;
  // Shared with the handles, which may live longer or shorter than their entry here.
  std::vector<std::shared_ptr<Outstanding>> outstanding_;
  std::string failure_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_COLLECTIVE_RUNNER_H_
