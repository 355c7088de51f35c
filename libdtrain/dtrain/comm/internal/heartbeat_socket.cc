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

sockaddr_in6 AddressOf(const in6_addr& host, uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = host;
  address.sin6_port = port;
  return address;
}

// The form of an IPv4 address for sockets of IPv6.
in6_addr Mapped(const in_addr& v4) {
  in6_addr mapped{};
  mapped.s6_addr[10] = 0xff;
  mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[12], &v4, sizeof(v4));
  return mapped;
}

sockaddr_in Unmapped(const sockaddr_in6& address) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = address.sin6_port;
  std::memcpy(&v4.sin_addr, &address.sin6_addr.s6_addr[12], sizeof(v4.sin_addr));
  return v4;
}

// The sender of a datagram that a socket of either family has received.
sockaddr_in6 SenderOf(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET6) return reinterpret_cast<const sockaddr_in6&>(storage);
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
  return AddressOf(Mapped(v4.sin_addr), v4.sin_port);
}

template <typename Address>
int Bind(int descriptor, const Address& address) {
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return descriptor;
  }
  ::close(descriptor);
  return -1;
}

// A socket bound to a port in network byte order, or -1.
int OpenSocket(int family, uint16_t port) {
  const int descriptor = ::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  const sockaddr_in6 any = AddressOf(in6addr_any, port);
  if (family == AF_INET) return Bind(descriptor, Unmapped(any));
  const int no = 0;
  ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  return Bind(descriptor, any);
}

// An address that other hosts may reach; those of a single link would need its name, too.
std::optional<in6_addr> HostAddress(const ifaddrs& interface) {
  if (interface.ifa_addr == nullptr || (interface.ifa_flags & IFF_UP) == 0) return std::nullopt;
  if (interface.ifa_addr->sa_family == AF_INET) {
    return Mapped(reinterpret_cast<const sockaddr_in*>(interface.ifa_addr)->sin_addr);
  }
  if (interface.ifa_addr->sa_family != AF_INET6) return std::nullopt;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(interface.ifa_addr)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&v6)) return std::nullopt;
  return v6;
}

}  // namespace

HeartbeatSocket::HeartbeatSocket(uint16_t port) : descriptor_(OpenSocket(AF_INET6, htons(port))) {
  if (descriptor_ >= 0) return;
  descriptor_ = OpenSocket(AF_INET, htons(port));
  is_v4_ = true;
}

HeartbeatSocket::HeartbeatSocket(HeartbeatSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      is_v4_(other.is_v4_),
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
  sockaddr_in6 bound{};  // the port stands at the same place as in sockaddr_in
  socklen_t length = sizeof(bound);
  ifaddrs* interfaces = nullptr;
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&bound), &length) != 0 ||
      ::getifaddrs(&interfaces) != 0) {
    return meeting;
  }
  meeting.port = bound.sin6_port;
  for (const ifaddrs* i = interfaces; i != nullptr; i = i->ifa_next) {
    const std::optional<in6_addr> address = HostAddress(*i);
    if (!address || meeting.count == static_cast<int32_t>(meeting.addresses.size())) continue;
    if (is_v4_ && IN6_IS_ADDR_V4MAPPED(&*address) == 0) continue;
    meeting.addresses[static_cast<size_t>(meeting.count++)] = *address;
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
  for (const std::optional<sockaddr_in6>& peer : peers_) {
    if (peer) SendTo(*peer, message);
  }
  if (rank_ == 0 || peers_[0]) return;
  // Until rank 0 has answered, it is unknown which of its addresses reaches it.
  for (int i = 0; i < meeting_.count; ++i) {
    SendTo(AddressOf(meeting_.addresses[static_cast<size_t>(i)], meeting_.port), message);
  }
}

void HeartbeatSocket::SendTo(const sockaddr_in6& address, const HeartbeatMessage& message) const {
  const size_t bytes = offsetof(HeartbeatMessage, text) + std::strlen(message.text.data()) + 1;
  const sockaddr_in v4 = Unmapped(address);
  const auto* const to =
      is_v4_ ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&address);
  const socklen_t length = is_v4_ ? sizeof(v4) : sizeof(address);
  static_cast<void>(::sendto(descriptor_, &message, bytes, MSG_NOSIGNAL, to, length));
}

std::optional<HeartbeatMessage> HeartbeatSocket::Receive() {
  for (;;) {
    HeartbeatMessage message;
    sockaddr_storage storage{};
    socklen_t length = sizeof(storage);
    const ssize_t bytes = ::recvfrom(descriptor_, &message, sizeof(message), 0,
                                     reinterpret_cast<sockaddr*>(&storage), &length);
    if (bytes < 0) return std::nullopt;
    if (static_cast<size_t>(bytes) <= offsetof(HeartbeatMessage, text) ||
        message.token != meeting_.token) {
      continue;
    }
    const int sender = message.beat.rank;
    if (sender < 0 || sender >= static_cast<int>(peers_.size()) || sender == rank_) continue;
    message.text.back() = '\0';
    message.beat.collective.back() = '\0';
    peers_[static_cast<size_t>(sender)] = SenderOf(storage);
    return message;
  }
}

}  // namespace dtrain::internal
