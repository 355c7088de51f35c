// heartbeat_socket_test.cc - datagrams between the sockets of two ranks in one process.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/heartbeat_socket.h"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "testing/catch.h"

namespace dtrain::internal {
namespace {

HeartbeatMessage MessageFrom(int rank, const char* text) {
  HeartbeatMessage message;
  message.beat.rank = rank;
  std::strncpy(message.text.data(), text, message.text.size() - 1);
  return message;
}

// The text of the next message; "" if none comes.
std::string Receive(HeartbeatSocket& socket, int milliseconds = 2000) {
  pollfd wait{.fd = socket.descriptor(), .events = POLLIN, .revents = 0};
  while (::poll(&wait, 1, milliseconds) > 0) {
    if (const auto message = socket.Receive()) return message->text.data();
  }
  return "";
}

TEST_CASE("rank 0 answers a rank once it has heard it") {
  HeartbeatSocket root;
  HeartbeatSocket other;
  REQUIRE(root.is_open());
  const HeartbeatMeeting meeting = root.MakeMeeting();
  REQUIRE(meeting.port != 0);
  root.Join(meeting, 0, 2);
  other.Join(meeting, 1, 2);
  root.Send(MessageFrom(0, "nobody is known yet"));
  other.Send(MessageFrom(1, "here I am"));
  CHECK(Receive(root) == "here I am");
  root.Send(MessageFrom(0, "welcome"));
  CHECK(Receive(other) == "welcome");
}

// The meeting with those of its addresses only that are of IPv4, or of IPv6.
HeartbeatMeeting OfFamily(HeartbeatMeeting meeting, bool is_v4) {
  auto* const end = meeting.addresses.begin() + meeting.count;
  auto* const left = std::remove_if(meeting.addresses.begin(), end, [&](const in6_addr& address) {
    return (IN6_IS_ADDR_V4MAPPED(&address) != 0) != is_v4;
  });
  meeting.count = static_cast<int32_t>(left - meeting.addresses.begin());
  return meeting;
}

TEST_CASE("rank 0 is heard over IPv4 and over IPv6") {
  for (const bool is_v4 : {true, false}) {
    HeartbeatSocket root;
    HeartbeatSocket other;
    const HeartbeatMeeting meeting = OfFamily(root.MakeMeeting(), is_v4);
    INFO((is_v4 ? "IPv4" : "IPv6"));
    if (!is_v4 && std::ifstream("/proc/net/if_inet6").peek() == std::ifstream::traits_type::eof()) {
      WARN("skipped: this machine has no IPv6");
      continue;
    }
    REQUIRE(meeting.count > 0);
    root.Join(meeting, 0, 2);
    other.Join(meeting, 1, 2);
    other.Send(MessageFrom(1, "here I am"));
    CHECK(Receive(root) == "here I am");
    root.Send(MessageFrom(0, "welcome"));
    CHECK(Receive(other) == "welcome");
  }
}

TEST_CASE("rank 0 takes the port that the user chose") {
  const HeartbeatSocket any;
  HeartbeatSocket taken(ntohs(any.MakeMeeting().port));
  CHECK_FALSE(taken.is_open());
  constexpr uint16_t kPort = 31987;
  CHECK(ntohs(HeartbeatSocket(kPort).MakeMeeting().port) == kPort);
}

TEST_CASE("messages of another job, and of ranks that cannot be, are dropped") {
  HeartbeatSocket root;
  HeartbeatSocket stranger;
  HeartbeatMeeting meeting = root.MakeMeeting();
  root.Join(meeting, 0, 2);
  meeting.token[0] = static_cast<unsigned char>(meeting.token[0] ^ 1);
  stranger.Join(meeting, 1, 2);
  stranger.Send(MessageFrom(1, "another job"));
  CHECK(Receive(root, 100).empty());
  HeartbeatSocket third;
  third.Join(root.MakeMeeting(), 1, 2);
  meeting.token[0] = static_cast<unsigned char>(meeting.token[0] ^ 1);
  third.Join(meeting, 1, 2);
  third.Send(MessageFrom(7, "no such rank"));
  third.Send(MessageFrom(0, "the root itself"));
  CHECK(Receive(root, 100).empty());
  HeartbeatSocket moved(std::move(third));
  moved.Send(MessageFrom(1, "a good one"));
  CHECK(Receive(root) == "a good one");
}

}  // namespace
}  // namespace dtrain::internal
