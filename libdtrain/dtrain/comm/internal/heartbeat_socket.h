// heartbeat_socket.h - carries heartbeats between rank 0 and the other ranks, as UDP datagrams.
// SPDX-License-Identifier: Apache-2.0
//
// Each datagram holds a random token of the job, which MPI has spread. Other datagrams are dropped.
#ifndef DTRAIN_COMM_INTERNAL_HEARTBEAT_SOCKET_H_
#define DTRAIN_COMM_INTERNAL_HEARTBEAT_SOCKET_H_

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dtrain/comm/internal/watchdog.h"

namespace dtrain::internal {

using JobToken = std::array<unsigned char, 16>;

struct HeartbeatMessage {
  JobToken token{};
  Beat beat;
  // Rank 0 alone sets the rest.
  int32_t note_number = 0;
  bool watched = false;  // rank 0 hears every rank
  bool is_failure = false;
  // The failure, or the note of that number. Only the used part is sent.
  std::array<char, 900> text{};
};

// How the other ranks reach rank 0.
struct HeartbeatMeeting {
  JobToken token{};
  uint16_t port = 0;  // in network byte order; 0 if rank 0 has no socket
  int32_t count = 0;
  std::array<in6_addr, 16> addresses{};  // those of IPv4 in their form for IPv6 (::ffff:10.0.0.1)
};

class HeartbeatSocket {
 public:
  // Opens a socket for IPv4 and IPv6 at `port`, or at any free port.
  explicit HeartbeatSocket(uint16_t port = 0);
  ~HeartbeatSocket();
  HeartbeatSocket(HeartbeatSocket&& other) noexcept;
  HeartbeatSocket& operator=(HeartbeatSocket&&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  // For poll().
  int descriptor() const { return descriptor_; }
  // For rank 0: where this socket can be reached, with a new token. The port is 0 on failure.
  HeartbeatMeeting MakeMeeting() const;
  // This is rank `rank` of `size` ranks. Call it before Send() and Receive().
  void Join(const HeartbeatMeeting& meeting, int rank, int size);

  // Rank 0 sends to all ranks that it has heard, the others send to rank 0. A datagram that does
  // not get through counts as silence.
  void Send(HeartbeatMessage message) const;
  // The next message of another rank of the job, or nothing if none has arrived.
  std::optional<HeartbeatMessage> Receive();

 private:
  void SendTo(const sockaddr_in6& address, const HeartbeatMessage& message) const;

  int descriptor_ = -1;
  bool is_v4_ = false;  // the system has no IPv6
  HeartbeatMeeting meeting_;
  int rank_ = 0;
  std::vector<std::optional<sockaddr_in6>> peers_;  // the senders of the ranks' last messages
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_HEARTBEAT_SOCKET_H_
