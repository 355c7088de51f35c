// survey_sockets.h - the two UDP sockets, of IPv4 and IPv6, over which hosts survey their networks.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SURVEY_SOCKETS_H_
#define DTRAIN_COMM_INTERNAL_SURVEY_SOCKETS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "dtrain/comm/internal/socket_address.h"

namespace dtrain::internal {

// Their packets are never cut into pieces, so that large ones show what a network carries.
class SurveySockets {
 public:
  // Binds both to a port, 0 for any. One of them may be missing.
  explicit SurveySockets(uint16_t port);
  ~SurveySockets();
  SurveySockets(const SurveySockets&) = delete;
  SurveySockets& operator=(const SurveySockets&) = delete;

  bool is_open() const { return v4_ >= 0 || v6_ >= 0; }
  // For poll().
  std::array<int, 2> descriptors() const { return {v4_, v6_}; }

  // Returns false if the system knows that the way is too narrow for the packet.
  bool Send(const std::string& text, const SocketAddress& to) const;
  // Returns the next datagram of either socket and its sender, or nothing if none has arrived.
  std::optional<std::pair<std::string, SocketAddress>> Receive();

 private:
  int v4_;
  int v6_;
  std::string buffer_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SURVEY_SOCKETS_H_
