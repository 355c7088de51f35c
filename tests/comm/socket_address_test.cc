// socket_address_test.cc - addresses of both families from texts, names and sockets.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/socket_address.h"

#include <netinet/in.h>

#include "dtrain/comm/internal/network_interfaces.h"
#include "testing/catch.h"

namespace dtrain::internal {
namespace {

TEST_CASE("an address is its text, family and port") {
  const SocketAddress v4 = SocketAddress::Of("10.77.0.1", 4711);
  CHECK(v4.is_v4());
  CHECK(v4.Text() == "10.77.0.1");
  CHECK(v4.port() == 4711);
  CHECK(v4.length() == sizeof(sockaddr_in));
  const SocketAddress v6 = SocketAddress::Of("fd77::1", 4711).WithPort(12);
  CHECK(v6.family() == AF_INET6);
  CHECK(v6.Text() == "fd77::1");
  CHECK(v6.port() == 12);
  CHECK_FALSE(SocketAddress::Of("host", 1).is_known());
  CHECK(SocketAddress::Of("host", 1).Text().empty());
}

TEST_CASE("loopback is 127.x.y.z and ::1") {
  CHECK(SocketAddress::Of("127.0.1.1", 1).IsLoopback());
  CHECK(SocketAddress::Of("::1", 1).IsLoopback());
  CHECK_FALSE(SocketAddress::Of("128.0.0.1", 1).IsLoopback());
  CHECK_FALSE(SocketAddress::Of("fd77::1", 1).IsLoopback());
}

TEST_CASE("a name has addresses, and the way to them begins at one of this host") {
  REQUIRE_FALSE(Resolve("127.0.0.1", 7).empty());
  CHECK(Resolve("127.0.0.1", 7)[0].port() == 7);
  CHECK(Resolve("no-such-host.invalid", 7).empty());
  CHECK(LocalAddressFor(SocketAddress::Of("127.0.0.1", 7)) == "127.0.0.1");
  CHECK(LocalAddressFor(SocketAddress()).empty());
}

TEST_CASE("the network of an address is its first bits") {
  CHECK(NetworkOf("10.77.0.1", 24) == "10.77.0.0/24");
  CHECK(NetworkOf("10.77.255.255", 12) == "10.64.0.0/12");
  CHECK(NetworkOf("10.77.0.1", 32) == "10.77.0.1/32");
  CHECK(NetworkOf("fd77:1:2:3:4::1", 64) == "fd77:1:2:3::/64");
  CHECK(NetworkOf("host", 8).empty());
}

}  // namespace
}  // namespace dtrain::internal
