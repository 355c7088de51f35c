// network_agreement_test.cc - which interfaces a host leaves out after what all hosts found out.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/network_agreement.h"

#include <map>
#include <string>
#include <vector>

#include "testing/catch.h"

namespace dtrain {
namespace {

using internal::ApplyFindings;
using internal::DescribeLostPackets;
using internal::HostNetworks;
using internal::kTunnel;
using internal::NetworkFindings;
using internal::NetworkInterface;
using internal::NetworkPath;
using internal::NetworkVerdict;
using internal::VerdictOf;

constexpr const char* kSlow = "10.77.0.0/24";
constexpr const char* kFast = "10.78.0.0/24";
constexpr const char* kVpn = "10.79.0.0/24";

NetworkInterface Card(const std::string& name, const std::string& network, int64_t mbit = 0) {
  return {.name = name,
          .addresses = {"address in " + network},
          .obstacle = "",
          .megabits_per_second = mbit,
          .mtu = 1500,
          .networks = {network}};
}

NetworkInterface Tunnel() {
  NetworkInterface tunnel = Card("wg0", kVpn);
  tunnel.obstacle = kTunnel;
  return tunnel;
}

NetworkPath Path(const std::string& host, const std::string& interface,
                 const std::string& network) {
  return {.host = host, .interface = interface, .network = network, .answers = true};
}

// What a host finds out whose only other host, b, has those interfaces and found the same.
NetworkFindings Agree(const std::vector<NetworkInterface>& theirs,
                      const std::vector<NetworkPath>& paths) {
  const NetworkVerdict verdict = VerdictOf(paths, {"b"});
  return {.is_complete = true,
          .hosts = {{.name = "b", .interfaces = theirs, .verdict = verdict}},
          .paths = paths,
          .own = verdict};
}

// The interfaces that are used.
std::string Used(const NetworkFindings& findings, std::vector<NetworkInterface> interfaces) {
  ApplyFindings(findings, interfaces);
  std::string used;
  for (const NetworkInterface& interface : interfaces) {
    if (interface.obstacle.empty()) used += (used.empty() ? "" : " ") + interface.name;
  }
  return used;
}

TEST_CASE("a network is good if every other host answers on it, to large packets as well") {
  std::vector<NetworkPath> paths = {Path("b", "eth0", kSlow), Path("c", "eth0", kSlow),
                                    Path("b", "eth1", kFast), Path("c", "eth1", kFast)};
  const std::vector<std::string> hosts = {"b", "c"};
  CHECK(VerdictOf(paths, hosts).good == std::vector<std::string>{kSlow, kFast});
  CHECK_FALSE(VerdictOf(paths, hosts).needs_tunnel);
  paths[3].lost_bytes = 9000;
  CHECK(VerdictOf(paths, hosts).good == std::vector<std::string>{kSlow});
  paths[1].answers = false;
  CHECK(VerdictOf(paths, hosts).good.empty());
  CHECK_FALSE(VerdictOf(paths, hosts).needs_tunnel);
  paths[3].is_tunnel = true;
  CHECK(VerdictOf(paths, hosts).needs_tunnel);
}

TEST_CASE("the slower of two networks that reach all hosts is left out") {
  const std::vector<NetworkInterface> cards = {Card("eth0", kSlow, 1000),
                                               Card("eth1", kFast, 10000)};
  const std::vector<NetworkPath> paths = {Path("b", "eth0", kSlow), Path("b", "eth1", kFast)};
  CHECK(Used(Agree(cards, paths), cards) == "eth1");
  std::vector<NetworkInterface> marked = cards;
  ApplyFindings(Agree(cards, paths), marked);
  CHECK(marked[0].obstacle == "slower than eth1 (10000 Mbit/s), which reaches all hosts");
}

TEST_CASE("a network is as fast as its slowest card on any host") {
  const std::vector<NetworkInterface> mine = {Card("eth0", kSlow, 1000),
                                              Card("eth1", kFast, 10000)};
  const std::vector<NetworkPath> paths = {Path("b", "eth0", kSlow), Path("b", "eth1", kFast)};
  const std::vector<NetworkInterface> slow = {Card("eth0", kSlow, 1000), Card("eth1", kFast, 100)};
  CHECK(Used(Agree(slow, paths), mine) == "eth0 eth1");
  const std::vector<NetworkInterface> unknown = {Card("eth0", kSlow, 1000), Card("eth1", kFast)};
  CHECK(Used(Agree(unknown, paths), mine) == "eth0 eth1");
}

TEST_CASE("networks of equal or unknown speed are all used") {
  const std::vector<NetworkPath> paths = {Path("b", "eth0", kSlow), Path("b", "eth1", kFast)};
  for (const int64_t mbit : {0, 10000}) {
    const std::vector<NetworkInterface> cards = {Card("eth0", kSlow, mbit),
                                                 Card("eth1", kFast, mbit)};
    CHECK(Used(Agree(cards, paths), cards) == "eth0 eth1");
  }
}

TEST_CASE("nothing is left out for a network that another host does not find good") {
  const std::vector<NetworkInterface> cards = {Card("eth0", kSlow, 1000),
                                               Card("eth1", kFast, 10000)};
  const std::vector<NetworkPath> paths = {Path("b", "eth0", kSlow), Path("b", "eth1", kFast)};
  NetworkFindings findings = Agree(cards, paths);
  findings.hosts[0].verdict->good = {kSlow};
  CHECK(Used(findings, cards) == "eth0 eth1");
  findings.hosts[0].verdict->good.clear();
  CHECK(Used(findings, cards) == "eth0 eth1");
}

TEST_CASE("nothing is left out before all hosts have answered") {
  const std::vector<NetworkInterface> cards = {Card("eth0", kSlow, 1000),
                                               Card("eth1", kFast, 10000)};
  NetworkFindings findings = Agree(cards, {Path("b", "eth0", kSlow), Path("b", "eth1", kFast)});
  findings.is_complete = false;
  CHECK(Used(findings, cards) == "eth0 eth1");
}

TEST_CASE("a network that reaches nobody or loses large packets is left out beside a good one") {
  const std::vector<NetworkInterface> cards = {Card("eth0", kSlow, 1000),
                                               Card("eth1", kFast, 10000)};
  CHECK(Used(Agree(cards, {Path("b", "eth0", kSlow)}), cards) == "eth0");
  std::vector<NetworkPath> paths = {Path("b", "eth0", kSlow), Path("b", "eth1", kFast)};
  paths[1].lost_bytes = 9000;
  CHECK(Used(Agree(cards, paths), cards) == "eth0");
  // It is the only one.
  CHECK(Used(Agree({cards[1]}, {paths[1]}), {cards[1]}) == "eth1");
}

TEST_CASE("a tunnel is left out beside a network, and used alone where it is the only way") {
  const std::vector<NetworkInterface> interfaces = {Card("eth0", kSlow), Tunnel()};
  NetworkPath vpn = Path("b", "wg0", kVpn);
  vpn.is_tunnel = true;
  CHECK(Used(Agree(interfaces, {Path("b", "eth0", kSlow), vpn}), interfaces) == "eth0");
  CHECK(Used(Agree(interfaces, {vpn}), interfaces) == "wg0");
  // A router reaches the other host, too.
  CHECK(Used(Agree(interfaces, {Path("b", "eth0", ""), vpn}), interfaces) == "eth0");
}

TEST_CASE("one host that needs the tunnel lets all use it") {
  const std::vector<NetworkInterface> interfaces = {Card("eth0", kSlow), Tunnel()};
  NetworkPath vpn = Path("b", "wg0", kVpn);
  vpn.is_tunnel = true;
  NetworkFindings findings = Agree(interfaces, {Path("b", "eth0", ""), vpn});
  findings.hosts[0].verdict->needs_tunnel = true;
  CHECK(Used(findings, interfaces) == "wg0");
}

TEST_CASE("of two cards in one network none is left out, because the system uses one for both") {
  const std::vector<NetworkInterface> cards = {Card("eth0", kFast, 10000),
                                               Card("eth1", kFast, 1000)};
  CHECK(Used(Agree(cards, {Path("b", "eth1", kFast)}), cards) == "eth0 eth1");
}

TEST_CASE("lost packets are named with both hosts, interface, addresses and what helps") {
  NetworkPath path = Path("b", "eth1", kFast);
  path.local = "10.78.0.1";
  path.address = "10.78.0.2";
  path.lost_bytes = 9000;
  NetworkFindings findings = Agree({}, {path, path});
  std::vector<NetworkInterface> interfaces = {Card("eth1", kFast)};
  const std::vector<std::string> sentences = DescribeLostPackets(findings, "a", interfaces);
  REQUIRE(sentences.size() == 1);
  CHECK_THAT(sentences[0],
             Catch::Contains("packets of 9000 bytes from host a, eth1 (10.78.0.1), do not reach "
                             "host b (10.78.0.2)") &&
                 Catch::Contains("ip link set eth1 mtu 1500") && !Catch::Contains("leaves"));
  interfaces[0].obstacle = "it loses packets";
  CHECK_THAT(DescribeLostPackets(findings, "a", interfaces)[0],
             Catch::Contains("this job leaves eth1 out"));
}

}  // namespace
}  // namespace dtrain
