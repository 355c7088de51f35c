// heartbeat_socket.cc - one socket per process, a star around rank 0.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/heartbeat_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <utility>

namespace dtrain::internal {
namespace {

sockaddr_in AddressOf(in_addr host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = host;
  address.sin_port = port;
  return address;
}

// A bound socket, or -1.
int OpenSocket() {
  const int descriptor = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const sockaddr_in any = AddressOf({.s_addr = INADDR_ANY}, 0);
  if (descriptor < 0 ||
      ::bind(descriptor, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0) {
    return descriptor;
  }
  ::close(descriptor);
  return -1;
}

}  // namespace

HeartbeatSocket::HeartbeatSocket() : descriptor_(OpenSocket()) {}

HeartbeatSocket::HeartbeatSocket(HeartbeatSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      meeting_(other.meeting_),
      rank_(other.rank_),
      peers_(std::move(other.peers_)) {}

HeartbeatSocket::~HeartbeatSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

HeartbeatMeeting HeartbeatSocket::MakeMeeting() const {
  HeartbeatMeeting meeting;
  if (::getrandom(meeting.token.data(), meeting.token.size(), 0) !=
      static_cast<ssize_t>(meeting.token.size())) {
    return meeting;
  }
  sockaddr_in bound{};
  socklen_t length = sizeof(bound);
  ifaddrs* interfaces = nullptr;
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&bound), &length) != 0 ||
      ::getifaddrs(&interfaces) != 0) {
    return meeting;
  }
  meeting.port = bound.sin_port;
  for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 ||
        meeting.count == static_cast<int32_t>(meeting.addresses.size())) {
      continue;
    }
    meeting.addresses[static_cast<size_t>(meeting.count++)] =
        reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
  }
  ::freeifaddrs(interfaces);
  return meeting;
}

void HeartbeatSocket::Join(const HeartbeatMeeting& meeting, int rank, int size) {
  meeting_ = meeting;
  rank_ = rank;
  peers_.resize(static_cast<size_t>(rank == 0 ? size : 1));
}

void HeartbeatSocket::Send(HeartbeatMessage message) const {
  message.token = meeting_.token;
  for (const std::optional<sockaddr_in>& peer : peers_) {
    if (peer) SendTo(*peer, message);
  }
  if (rank_ == 0 || peers_[0]) return;
  // Until rank 0 has answered, it is unknown which of its addresses reaches it.
  for (int i = 0; i < meeting_.count; ++i) {
    SendTo(AddressOf(meeting_.addresses[static_cast<size_t>(i)], meeting_.port), message);
  }
}

void HeartbeatSocket::SendTo(const sockaddr_in& address, const HeartbeatMessage& message) const {
  const size_t bytes = offsetof(HeartbeatMessage, text) + std::strlen(message.text.data()) + 1;
  static_cast<void>(::sendto(descriptor_, &message, bytes, MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
}

std::optional<HeartbeatMessage> HeartbeatSocket::Receive() {
  for (;;) {
    HeartbeatMessage message;
    sockaddr_in from{};
    socklen_t length = sizeof(from);
    const ssize_t bytes = ::recvfrom(descriptor_, &message, sizeof(message), 0,
                                     reinterpret_cast<sockaddr*>(&from), &length);
    if (bytes < 0) return std::nullopt;
    if (static_cast<size_t>(bytes) <= offsetof(HeartbeatMessage, text) ||
        message.token != meeting_.token) {
      continue;
    }
    const int sender = message.beat.rank;
    if (sender < 0 || sender >= static_cast<int>(peers_.size()) || sender == rank_) continue;
    message.text.back() = '\0';
    message.beat.collective.back() = '\0';
    peers_[static_cast<size_t>(sender)] = from;
    return message;
  }
}

}  // namespace dtrain::internal
