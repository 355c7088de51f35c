// heartbeat.h - says on a channel of its own that a rank lives, and hears of the others.
// SPDX-License-Identifier: Apache-2.0
//
// A thread sends a datagram (UDP, IPv4) to rank 0 about once a second; rank 0 answers each rank
// with its own state and what it found (job_watch.h). So beats go on while MPI or the thread that
// trains is stuck, and cost a packet of some 100 bytes. Every datagram carries a random token of
// the job, which MPI has spread; others are dropped. Where datagrams do not get through, the ranks
// are judged by their waits alone (wait_watch.h).
#ifndef DTRAIN_COMM_INTERNAL_HEARTBEAT_H_
#define DTRAIN_COMM_INTERNAL_HEARTBEAT_H_

#include <memory>

#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

class Heartbeat {
 public:
  // Of all ranks, collectively; may outlive `world`. Null, with a warning, on a rank that has no
  // socket for it.
  static std::unique_ptr<Heartbeat> Start(Communicator& world, const CommunicatorOptions& options);
  virtual ~Heartbeat() = default;  // tells the others that this rank has ended its work
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 protected:
  Heartbeat() = default;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_HEARTBEAT_H_
