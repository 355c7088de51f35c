// socket_address.h - an IPv4 or IPv6 address and a port, for sockets.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_SOCKET_ADDRESS_H_
#define DTRAIN_COMM_INTERNAL_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::internal {

class SocketAddress {
 public:
  // Belongs to no family; for recvfrom() to fill in.
  SocketAddress() = default;
  // All addresses of this host, of AF_INET or AF_INET6.
  static SocketAddress Any(int family, uint16_t port);
  // The address that the text "10.77.0.1" or "fd77::1" means; no family if it means none.
  static SocketAddress Of(const std::string& text, uint16_t port);
  // From the system's form of an address.
  SocketAddress(const sockaddr* address, socklen_t length);

  bool is_known() const { return family() == AF_INET || family() == AF_INET6; }
  bool is_v4() const { return family() == AF_INET; }
  int family() const { return storage_.ss_family; }
  bool IsLoopback() const;
  // "10.77.0.1", or "" without a family.
  std::string Text() const;
  uint16_t port() const;
  SocketAddress WithPort(uint16_t port) const;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  socklen_t* mutable_length() { return &length_; }

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = sizeof(sockaddr_storage);
};

// Returns the addresses of a host's name, or nothing for a name that nobody knows.
std::vector<SocketAddress> Resolve(const std::string& host, uint16_t port);

// Returns the address of this host from which packets to `to` leave, or "" if no way leads there.
std::string LocalAddressFor(const SocketAddress& to);

// Lets a UDP socket of a family send packets whole or not at all: no router cuts them into pieces.
void KeepPacketsWhole(int descriptor, int family);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_SOCKET_ADDRESS_H_
