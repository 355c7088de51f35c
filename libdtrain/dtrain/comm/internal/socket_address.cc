// socket_address.cc - what the system's two forms of addresses have in common.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace dtrain::internal {

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length)
    : length_(std::min<socklen_t>(length, sizeof(storage_))) {
  std::memcpy(&storage_, address, length_);
}

SocketAddress SocketAddress::Any(int family, uint16_t port) {
  return Of(family == AF_INET ? "0.0.0.0" : "::", port);
}

SocketAddress SocketAddress::Of(const std::string& text, uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    return {reinterpret_cast<const sockaddr*>(&v4), sizeof(v4)};
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    return {reinterpret_cast<const sockaddr*>(&v6), sizeof(v6)};
  }
  return {};
}

bool SocketAddress::IsLoopback() const {
  if (is_v4()) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr) >> 24 == 127;
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string SocketAddress::Text() const {
  std::array<char, NI_MAXHOST> text{};
  if (!is_known()) return "";
  const int error =
      ::getnameinfo(get(), length_, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "";
}

uint16_t SocketAddress::port() const {
  return ntohs(is_v4() ? reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port
                       : reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
}

SocketAddress SocketAddress::WithPort(uint16_t port) const {
  SocketAddress copy = *this;
  if (is_v4()) {
    reinterpret_cast<sockaddr_in*>(&copy.storage_)->sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6*>(&copy.storage_)->sin6_port = htons(port);
  }
  return copy;
}

std::vector<SocketAddress> Resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;  // each address once
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    addresses.push_back(SocketAddress(a->ai_addr, a->ai_addrlen).WithPort(port));
  }
  return addresses;
}

std::string LocalAddressFor(const SocketAddress& to) {
  if (!to.is_known()) return "";
  // To connect a UDP socket sends nothing: it only asks for the way.
  const int descriptor = ::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return "";
  SocketAddress local;
  const bool is_found = ::connect(descriptor, to.get(), to.length()) == 0 &&
                        ::getsockname(descriptor, local.get(), local.mutable_length()) == 0;
  ::close(descriptor);
  return is_found ? local.Text() : "";
}

void KeepPacketsWhole(int descriptor, int family) {
  const int whole = IP_PMTUDISC_DO;
  static_assert(IP_PMTUDISC_DO == IPV6_PMTUDISC_DO);
  ::setsockopt(descriptor, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
               family == AF_INET ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &whole, sizeof(whole));
}

}  // namespace dtrain::internal
