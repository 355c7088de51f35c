// heartbeat_service.h - sends this rank's heartbeats and receives those of the others.
// SPDX-License-Identifier: Apache-2.0
//
// A thread sends a datagram (UDP, IPv4) to rank 0 about once a second. Rank 0 answers each rank
// with its own state and with what its watchdog found (watchdog.h). So heartbeats continue while
// MPI or the training thread is stuck. Each costs a packet of some 100 bytes. If datagrams do not
// get through, the lengths of waits alone decide (wait_watchdog.h).
#ifndef DTRAIN_COMM_INTERNAL_HEARTBEAT_SERVICE_H_
#define DTRAIN_COMM_INTERNAL_HEARTBEAT_SERVICE_H_

#include <cstdint>
#include <memory>

#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

class HeartbeatService {
 public:
  // All ranks call it. The service may outlive `world`. Rank 0 listens at `port`, or at any free
  // one for 0. Returns null, with a warning, on a rank that can open no socket.
  static std::unique_ptr<HeartbeatService> Start(Communicator& world,
                                                 const CommunicatorOptions& options,
                                                 uint16_t port = 0);
  // Tells the others that this rank has ended its work.
  virtual ~HeartbeatService() = default;
  HeartbeatService(const HeartbeatService&) = delete;
  HeartbeatService& operator=(const HeartbeatService&) = delete;

 protected:
  HeartbeatService() = default;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_HEARTBEAT_SERVICE_H_
